#include "fidelity/aiconfigurator_client.h"

#include <algorithm>

#include "fidelity/experiment.h"

namespace wattle::fidelity {
namespace {

/// CPU time of the process between client and scheduler: HTTP, tokenising, streaming.
struct FrontEnd {
  double per_request_s;
  double per_prompt_token_s;
  double per_token_s;
};

// Chosen on the half of the rows that counts as fitted, among 2 to 20 ms, 0 to 3 us and 0 to 100 us. TensorRT-LLM's and
// SGLang's saturate at about 10,000 streamed tokens per second, whatever the GPUs could do; vLLM's never limits a row.
constexpr FrontEnd kLight{0.002, 0.0, 0.0};
constexpr FrontEnd kTrtllm{0.015, 2e-6, 55e-6};
constexpr FrontEnd kSglang{0.010, 0.0, 60e-6};

// aiconfigurator's generator (its rule_plugin/trtllm.rule, vllm.rule and sglang.rule) gives an engine room for one
// prompt and a bit: max_num_tokens = max_batch_size + isl + 1500 with a max_batch_size of 512 at least,
// max_prefill_tokens = isl + 1500 for SGLang, there with enable_mixed_chunk.
constexpr std::int32_t kPromptRoom = 1500;
constexpr std::int32_t kBatchRoom = 512;

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// As the backend starts by itself.
engine::EngineOptions default_engine(const std::string& backend) {
  if (backend == "vllm") return benchmark_engine();
  // TensorRT-LLM takes the likeliest token without sorting the vocabulary.
  engine::EngineOptions engine = backend == "trtllm" ? greedy_engine() : benchmark_engine();
  engine.chunked_prefill = backend != "sglang";
  engine.whole_prompts = true;
  engine.reserve_output = true;
  engine.async_scheduling = true;  // their default; vLLM's came after these versions
  return engine;
}

/// Engine and front end of a "gap-analysis" row.
void generate(const SampleRow& row, SampleRun& to) {
  const auto prompt = static_cast<std::int32_t>(row.input_tokens);
  FrontEnd front_end = kLight;
  // 20 requests per slot and at most 2,000: the means, printed to 16 digits, are multiples of 1 ns only at such counts.
  std::int32_t per_slot = 20;
  if (row.backend == "trtllm") {
    front_end = kTrtllm;
    to.engine.max_num_batched_tokens = kBatchRoom + prompt + kPromptRoom;
    // In this one file time to first token grows with the answer as if one slot stayed empty: by answer / (C - 1).
    if (contains(row.source, "1.0.0rc3/meta-llama_Llama-3.1-8B")) to.engine.max_num_seqs = row.concurrency - 1;
  } else if (row.backend == "vllm") {
    to.engine.max_num_batched_tokens = kBatchRoom + prompt + kPromptRoom;
  } else if (contains(row.source, "sglang/0.5.6")) {
    per_slot = 10;  // another client, aiconfigurator's own genai_perf_runner
    front_end = kSglang;
    to.engine.chunked_prefill = true;  // enable_mixed_chunk
    to.engine.whole_prompts = false;
    to.engine.max_num_batched_tokens = row.concurrency + prompt + kPromptRoom;
  }
  to.load.requests = std::min(per_slot * row.concurrency, 2000);
  to.load.front_end_s = front_end.per_request_s + front_end.per_prompt_token_s * row.input_tokens;
  to.load.front_end_token_s = front_end.per_token_s;
}

}  // namespace

bool SampleRow::fixed_lengths() const { return contains(source, "gap-analysis"); }

SampleRun run_of(const SampleRow& row) {
  SampleRun run;
  run.engine = default_engine(row.backend);
  run.engine.max_num_seqs = std::max(run.engine.max_num_seqs, row.concurrency);
  run.load.concurrency = row.concurrency;
  run.load.input_mean = row.input_tokens;
  run.load.output_mean = row.output_tokens;
  run.load.front_end_s = kLight.per_request_s;
  if (row.fixed_lengths()) {
    generate(row, run);
  } else {
    run.load.requests = 10 * row.concurrency;
    run.load.shortest = 0.8;  // uniform within 80 to 100 % of the nominal length
  }
  return run;
}

}  // namespace wattle::fidelity
