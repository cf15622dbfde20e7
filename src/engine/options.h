#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/framework.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::engine {

/// How a simulated engine schedules and stores; vLLM's names where it has them.
struct EngineOptions {
  std::int32_t block_size = 16;                ///< KV tokens per block
  double gpu_memory_utilization = 0.90;        ///< share of device memory for weights, activations and KV
  double activation_bytes_per_gpu = 2.0e9;     ///< set aside before KV blocks are counted
  double watermark = 0.01;                     ///< share of KV blocks kept free when admitting a prompt
  std::int32_t max_num_seqs = 1024;            ///< requests running at once
  std::int32_t max_num_batched_tokens = 8192;  ///< tokens computed per step (prefill budget)
  /// Colocated: prompts share steps with decodes; else a step has prompts or decodes, and prompts go first (SGLang,
  /// vLLM of 2023).
  bool chunked_prefill = true;
  /// A prompt is computed in one step, alone if it is longer than the budget (TensorRT-LLM without chunked context,
  /// vLLM of 2023); else it is split where the budget ends.
  bool whole_prompts = false;
  /// A request is admitted once the KV cache has room for its last token, and never preempted (TensorRT-LLM's
  /// GUARANTEED_NO_EVICT); else blocks are taken as it grows. Its length is taken as known: benchmarks ask for it.
  bool reserve_output = false;
  /// A prompt's leading blocks are not computed where the KV of an earlier request is still there (vLLM V1's automatic
  /// prefix caching). Says nothing where it is not known what prompts consist of (Job::content).
  bool prefix_caching = true;
  /// Tokens drafted for each decoding request in each step, which the step verifies; 0: no speculative decoding. With
  /// it steps are run one by one.
  std::int32_t speculative_tokens = 0;
  /// That a drafted token is accepted, those before it being so: each alike and on its own (Leviathan et al., ICML
  /// 2023, assumption of 3.1), so that a step gives (1 - a^(k + 1)) / (1 - a) tokens on average (their equation 1).
  double acceptance_rate = 0.0;
  /// What drafting one token for the batch takes, of what a step without drafts takes the GPU: 0 for n-grams, a layer's
  /// share for EAGLE's kind, the ratio of the sizes for a draft model (their c).
  double draft_share = 0.0;
  /// A step is put together while its predecessor runs, so a request that arrives then waits one step more, unless
  /// nothing runs (TensorRT-LLM's and SGLang's overlap, vLLM's async scheduling).
  bool async_scheduling = false;
  /// The scheduler looks for new requests after so many steps without prompts, or one with, or when nothing runs
  /// (SGLang's --scheduler-recv-interval). Needs async_scheduling.
  std::int32_t receive_interval = 1;
  /// While others decode, prompts wait for more of them: until so many steps have gone by, or the step's tokens reach a
  /// share of max_num_batched_tokens (TensorRT-LLM's batch_wait_timeout_iters and batch_wait_max_tokens_ratio).
  std::int32_t batch_wait_steps = 0;
  double batch_wait_share = 1.0;
  /// Whose CPU times hold where those below are absent.
  Framework framework = Framework::Profile;
  // Time at no clock's pace; absent: the framework's, or what the GPU's profile was fitted with.
  std::optional<Span> step_gap;     ///< of the serving framework on the CPU, per step
  std::optional<Span> prompt_gap;   ///< likewise, per prompt of a step
  Span prompt_step_gap;             ///< beside step_gap, of a step with prompts: where no CUDA graph holds its kernels
  std::optional<Span> decode_gap;   ///< likewise, per decoding request of a step
  std::optional<Span> request_gap;  ///< of logits and sampling, the GPU busy, per request of a step
  /// Draw of a GPU that waits with the model loaded, at the highest clock; absent: what the GPU's profile was fitted
  /// with (clocks locked there). A running kernel draws what it did.
  std::optional<Watts> idle_gpu;
  /// Share of the memory bandwidth, at the highest clock, at which this engine's decode attention reads KV, in (0, 1];
  /// absent: that of the kernels the GPU's profile was fitted on. What a byte takes through L2 stays about the
  /// profile's.
  std::optional<double> decode_attention_efficiency;
  /// Each GPU's power limit (nvidia-smi -pl), at most its TDP; absent: TDP.
  std::optional<Watts> power_limit;
  /// Batches for which CUDA graphs were captured, ascending: a step of decodes alone computes the next of them whole.
  /// Larger batches, and all when empty, are padded as vLLM pads (1, 2, 4, then eights to 128) or not at all.
  std::vector<std::int32_t> graph_sizes;
  /// Of the CPU time of starting the kernels of a step with prompts (FrameworkTimes::experts and latent_attention):
  /// what is left where CUDA graphs hold some of them (TensorRT-LLM's piecewise graphs) or fewer kernels do the same.
  double launch_share = 1.0;
  /// Rows of which the routed experts' products have one block less a row for each expert of a GPU beside the tokens',
  /// touched or not: 128 where DeepGEMM's contiguous layout serves decodes, too (vLLM 0.11 and 0.12 with block-scaled
  /// FP8); 1: no more than the tokens'.
  std::int32_t expert_row_block = 1;
};

/// KV hand-over between a prefill and a decode instance.
struct LinkOptions {
  double bandwidth_bytes_per_s =
      25e9;  ///< per prefill instance, shared by its transfers in FIFO order; 0 = no transfer time
  Span latency = Span::us(500);
  /// Mean passes of the decode engine's loop (exponential: a wait for its front end) from the KV's arrival until it
  /// takes the request into its batch and sends the first token, each as long as the step then in progress.
  double handoff_steps = 0.0;
};

/// Delay of a clock command: the driver call, then the transition. NVML 3-8 ms, A100 about 20 ms.
struct ClockDelays {
  Span call = Span::ms(3);
  Span transition = Span::ms(20);
};

}  // namespace wattle::engine
