#include "fidelity/aiconfigurator_client.h"

#include <algorithm>
#include <cmath>

#include "fidelity/deepseek_on_trtllm.h"
#include "fidelity/experiment.h"

namespace wattle::fidelity {
namespace {

// aiconfigurator's generator (its rule_plugin/trtllm.rule, vllm.rule and sglang.rule) gives an engine room for one
// prompt and a bit: max_num_tokens = max_batch_size + isl + 1500 with a max_batch_size of 512 at least,
// max_prefill_tokens = isl + 1500 for SGLang, there with enable_mixed_chunk.
constexpr std::int32_t kPromptRoom = 1500;
constexpr std::int32_t kBatchRoom = 512;

// Its benchmark script runs aiperf, which draws from 100 prompts (the default of --num-dataset-entries) after a warm-up
// of twice the concurrency; its users state prompts of whole thousands of tokens, other clients in these files powers
// of two. vLLM and TensorRT-LLM cache prefixes by default; SGLang's runs of the same script compute every prompt, by
// the fitted half.
constexpr std::int32_t kAiperfPrompts = 100;
constexpr std::int32_t kAiperfLengths = 1000;

// InferenceMAX's scripts, one for each model, GPU and backend. A client gets the first token alone, then so many at
// once: 10 for TensorRT-LLM (gpt-oss 20), 10 to 50 for SGLang.
constexpr double kStreamInterval = 10.0;
constexpr std::int32_t kSglangChunk = 32768;   // --chunked-prefill-size; half of that for DeepSeek in 4 bits
constexpr std::int32_t kGptOssTokens = 20000;  // max_num_tokens on TensorRT-LLM
// Of the GPU's memory, for models that nearly fill it (SGLang's and vLLM's scripts; TensorRT-LLM takes three quarters
// of what weights leave).
constexpr double kMostMemory = 0.95;

// Seconds for each doubling of the GPUs whose kernel launches wait for each other: the script for Llama on vLLM and
// B200 sets CUDA graphs for decodes alone and no piecewise compilation (cudagraph_mode FULL_DECODE_ONLY, splitting_ops
// []); those for gpt-oss, H100 and H200 do not. From the fitted rows (17, 52 and 69 ms on 2, 4 and 8 GPUs).
constexpr double kGraphlessPrompts = 23e-3;

// Dates from which vLLM's scripts for B200 set an 8-bit KV cache, and MiniMax's also room for two prompts.
constexpr std::string_view kGptOssTunedOn = "2025-12-05";
constexpr std::string_view kMinimaxTunedOn = "2026-04-03";

bool tuned_minimax(const SampleRow& row) {
  return row.model.starts_with("minimax") && row.gpu == "b200" && row.measured_on() >= kMinimaxTunedOn;
}

engine::Framework framework_of(const std::string& backend) {
  if (backend == "vllm") return engine::Framework::Vllm;
  return backend == "trtllm" ? engine::Framework::TensorRtLlm : engine::Framework::Sglang;
}

/// The backend's defaults.
engine::EngineOptions default_engine(const std::string& backend) {
  engine::EngineOptions engine = benchmark_engine();
  engine.framework = framework_of(backend);
  if (engine.framework == engine::Framework::Vllm) return engine;
  engine.chunked_prefill = backend != "sglang";
  engine.whole_prompts = true;
  engine.reserve_output = true;
  engine.async_scheduling = true;  // their default; vLLM's came after 0.12
  return engine;
}

/// The engine of a "gap-analysis" row, and how many requests its client sent.
void generate(const SampleRow& row, SampleRun& to) {
  const auto prompt = static_cast<std::int32_t>(row.input_tokens);
  // 20 requests per slot and at most 2,000: the means, printed to 16 digits, are multiples of 1 ns only at such counts.
  std::int32_t per_slot = 20;
  if (row.backend == "trtllm" || row.backend == "vllm") {
    to.engine.max_num_batched_tokens = kBatchRoom + prompt + kPromptRoom;
    if (row.says("/vllm/0.12.")) {
      to.engine.expert_row_block = vllm_expert_row_block(row.model, row.precision == "fp8");
    }
  } else if (row.says("sglang/0.5.6")) {
    per_slot = 10;                     // another client, aiconfigurator's own genai_perf_runner
    to.engine.chunked_prefill = true;  // enable_mixed_chunk
    to.engine.whole_prompts = false;
    to.engine.max_num_batched_tokens = row.concurrency + prompt + kPromptRoom;
  }
  to.load.requests = std::min(per_slot * row.concurrency, 2000);
  if (prompt % kAiperfLengths == 0 && to.engine.framework != engine::Framework::Sglang) {
    to.load.distinct_prompts = kAiperfPrompts;
    to.load.prompts_sent_before = std::min(kAiperfPrompts, 2 * row.concurrency);
  }
}

/// The engine as InferenceMAX's published scripts start it (benchmarks/single_node of March 2026), and its client,
/// which sets temperature 0.
void start_as_inferencemax(const SampleRow& row, SampleRun& to) {
  const bool deepseek = row.model.starts_with("deepseek");
  const bool gpt_oss = row.model.starts_with("gpt-oss");
  to.engine.async_scheduling = true;  // vLLM's --async-scheduling, with --no-enable-prefix-caching
  to.engine.request_gap = Span();
  if (!gpt_oss && !row.model.starts_with("llama")) to.engine.gpu_memory_utilization = kMostMemory;
  if (tuned_minimax(row)) to.engine.max_num_batched_tokens = 2 * static_cast<std::int32_t>(row.input_tokens);
  if (row.backend == "vllm") {
    if (row.model.starts_with("llama") && row.gpu == "b200") {
      to.engine.prompt_step_gap = Span::from_seconds(kGraphlessPrompts * std::log2(row.tensor));
    }
    return;
  }
  to.load.front_end_token_s /= kStreamInterval;
  if (row.backend == "sglang") {
    to.engine.max_num_batched_tokens = deepseek && row.precision == "fp4" ? kSglangChunk / 2 : kSglangChunk;
    if (deepseek && row.gpu == "b200") to.engine.receive_interval = row.concurrency >= 16 ? 30 : 10;
  } else {
    if (gpt_oss) {
      to.load.front_end_processes = 4;  // num_postprocess_workers
      to.engine.max_num_batched_tokens = kGptOssTokens;
    }
    if (deepseek) start_deepseek_on_trtllm(row, to.engine);
    if (row.model.starts_with("llama")) {
      to.engine.max_num_batched_tokens = 16384;
      // batch_wait_timeout_iters and batch_wait_max_tokens_ratio
      to.engine.batch_wait_steps = row.input_tokens == 1024 && row.output_tokens == 1024 && row.tensor < 8 ? 20 : 0;
      to.engine.batch_wait_share = 0.9;
    }
  }
}

}  // namespace

bool narrow_kv_cache(const SampleRow& row) {
  if (row.fixed_lengths()) return row.backend == "trtllm";
  if (row.model.starts_with("gpt-oss")) {
    return row.gpu == "b200" && (row.backend == "trtllm" || row.measured_on() >= kGptOssTunedOn);
  }
  if (row.model.starts_with("minimax")) return tuned_minimax(row);
  return row.backend != "sglang" || row.gpu != "h200";
}

bool knows_backend(std::string_view backend) { return backend == "vllm" || backend == "trtllm" || backend == "sglang"; }

SampleRun run_of(const SampleRow& row) {
  SampleRun run;
  run.engine = default_engine(row.backend);
  run.engine.max_num_seqs = std::max(run.engine.max_num_seqs, row.concurrency);
  run.load.concurrency = row.concurrency;
  run.load.input_mean = row.input_tokens;
  run.load.output_mean = row.output_tokens;
  const engine::FrontEnd front_end = engine::times_of(run.engine.framework).front_end;
  run.load.front_end_s = front_end.request.seconds() + front_end.prompt_token.seconds() * row.input_tokens;
  run.load.front_end_token_s = front_end.token.seconds();
  if (row.fixed_lengths()) {
    generate(row, run);
  } else {
    start_as_inferencemax(row, run);
    run.load.requests = 10 * row.concurrency;
    run.load.shortest = 0.8;  // uniform within 80 to 100 % of the nominal length
  }
  return run;
}

}  // namespace wattle::fidelity
