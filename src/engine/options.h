#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/framework.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::engine {

/// How a simulated engine schedules and stores; vLLM's names where they exist.
struct EngineOptions {
  std::int32_t block_size = 16;                ///< KV tokens per block
  double gpu_memory_utilization = 0.90;        ///< share of device memory for weights, activations and KV
  double activation_bytes_per_gpu = 2.0e9;     ///< set aside before KV blocks are counted
  double watermark = 0.01;                     ///< share of KV blocks kept free when admitting a prompt
  std::int32_t max_num_seqs = 1024;            ///< requests running at once
  std::int32_t max_num_batched_tokens = 8192;  ///< tokens computed per step (prefill budget)
  /// Colocated: prompts share steps with decodes; false: a step has either prompts or decodes, and prompts go first
  /// (SGLang, vLLM of 2023).
  bool chunked_prefill = true;
  /// A prompt is computed in one step, alone if it is longer than the budget (TensorRT-LLM without chunked context,
  /// vLLM of 2023); false: it is split at the budget's end.
  bool whole_prompts = false;
  /// A request is admitted once the KV cache has room for its last token, and never preempted (TensorRT-LLM's
  /// GUARANTEED_NO_EVICT); false: blocks are taken as it grows. Its length is taken as known, since benchmarks specify
  /// it.
  bool reserve_output = false;
  /// A prompt's leading blocks are not computed if the KV of an earlier request is still cached (vLLM V1's automatic
  /// prefix caching). No effect if the prompts' content is unknown (Job::content).
  bool prefix_caching = true;
  /// Tokens drafted per decoding request and step, which the step verifies; 0: no speculative decoding. Without
  /// fast-forward.
  std::int32_t speculative_tokens = 0;
  /// Probability that a drafted token is accepted if those before it are: the same for all, independent (Leviathan et
  /// al., ICML 2023, assumption of 3.1), so a step yields (1 - a^(k + 1)) / (1 - a) tokens on average (their equation
  /// 1).
  double acceptance_rate = 0.0;
  /// Time to draft one token for the batch, as a share of a step without drafts on the GPU: 0 for n-grams, a layer's
  /// share for EAGLE, the ratio of the sizes for a draft model (their c).
  double draft_share = 0.0;
  /// A step is composed while its predecessor runs, so a request that arrives meanwhile waits one step more, unless
  /// nothing runs (overlap scheduling of TensorRT-LLM and SGLang, vLLM's async scheduling).
  bool async_scheduling = false;
  /// The scheduler checks for new requests after this many steps without prompts, after one with prompts, or when
  /// nothing runs (SGLang's --scheduler-recv-interval). Needs async_scheduling.
  std::int32_t receive_interval = 1;
  /// While others decode, prompts wait for more of them: until this many steps have passed, or the step's tokens reach
  /// a share of max_num_batched_tokens (TensorRT-LLM's batch_wait_timeout_iters and batch_wait_max_tokens_ratio).
  std::int32_t batch_wait_steps = 0;
  double batch_wait_share = 1.0;
  /// The framework whose CPU times apply where those below are absent.
  Framework framework = Framework::Profile;
  // Times independent of clocks; absent: the framework's, or those with which the GPU's profile was fitted.
  std::optional<Span> step_gap;    ///< of the serving framework on the CPU, per step
  std::optional<Span> prompt_gap;  ///< the same per prompt of a step
  Span prompt_step_gap;  ///< in addition to step_gap, per step with prompts: if no CUDA graph contains its kernels
  std::optional<Span> decode_gap;   ///< the same per decoding request of a step
  std::optional<Span> request_gap;  ///< of logits and sampling, with the GPU busy, per request of a step
  /// Power of a GPU that waits with the model loaded, at the highest clock; absent: that with which the GPU's profile
  /// was fitted (with locked clocks). The power of running kernels is unchanged.
  std::optional<Watts> idle_gpu;
  /// Share of the memory bandwidth, at the highest clock, with which this engine's decode attention reads KV, in (0,
  /// 1]; absent: that of the kernels on which the GPU's profile was fitted. The time per byte through L2 stays about
  /// the profile's.
  std::optional<double> decode_attention_efficiency;
  /// Each GPU's power limit (nvidia-smi -pl), at most its TDP; absent: TDP.
  std::optional<Watts> power_limit;
  /// Batch sizes with captured CUDA graphs, ascending: a step of decodes computes the next larger one completely.
  /// Larger batches, and all if empty, are padded as in vLLM (1, 2, 4, then multiples of 8 up to 128) or not at all.
  std::vector<std::int32_t> graph_sizes;
  /// Remaining share of the CPU time for starting the kernels of a step with prompts (FrameworkTimes::experts and
  /// latent_attention), if CUDA graphs contain some of them (TensorRT-LLM's piecewise graphs) or fewer kernels do the
  /// same.
  double launch_share = 1.0;
  /// Row padding of the routed experts' products: for each expert on a GPU, used or not, one row less than a block in
  /// addition to the tokens' rows. 128 if DeepGEMM's contiguous layout also serves decodes (vLLM 0.11 and 0.12 with
  /// block-scaled FP8); 1: only the tokens' rows.
  std::int32_t expert_row_block = 1;

  /// Of an engine of `groups` data-parallel groups: each schedules by itself.
  [[nodiscard]] EngineOptions of_groups(std::int32_t groups) const {
    EngineOptions all = *this;
    all.max_num_batched_tokens *= groups;
    all.max_num_seqs *= groups;
    return all;
  }
};

/// KV transfer between a prefill and a decode instance.
struct LinkOptions {
  double bandwidth_bytes_per_s =
      25e9;  ///< per prefill instance, shared by its transfers in FIFO order; 0 = no transfer time
  Span latency = Span::us(500);
  /// Mean number of passes of the decode engine's loop (exponential: a wait for its front end) from the KV's arrival
  /// until the request joins its batch and the first token is sent; each is as long as the step then in progress.
  double handoff_steps = 0.0;
};

/// Delay of a clock command: the driver call, then the transition. NVML 3 to 8 ms, A100 about 20 ms.
struct ClockDelays {
  Span call = Span::ms(3);
  Span transition = Span::ms(20);

  [[nodiscard]] constexpr Span whole() const { return call + transition; }
};

}  // namespace wattle::engine
