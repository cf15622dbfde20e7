#include "fidelity/aiconfigurator_client.h"

#include <algorithm>

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

void generated_engine(const SampleRow& row, Load& load) {
  const auto prompt = static_cast<std::int32_t>(row.input_tokens);
  FrontEnd front_end = kLight;
  // 20 requests per slot and at most 2,000: the means, printed to 16 digits, are multiples of 1 ns only at such counts.
  load.requests = std::min(20 * row.concurrency, 2000);
  if (row.backend == "trtllm") {
    front_end = kTrtllm;
    load.max_batched_tokens = kBatchRoom + prompt + kPromptRoom;
    // In this one file time to first token grows with the answer as if one slot stayed empty: by answer / (C - 1).
    if (contains(row.source, "1.0.0rc3/meta-llama_Llama-3.1-8B")) load.max_running = row.concurrency - 1;
  } else if (row.backend == "vllm") {
    load.max_batched_tokens = kBatchRoom + prompt + kPromptRoom;
  } else if (contains(row.source, "sglang/0.5.6")) {
    // Another client, aiconfigurator's own genai_perf_runner: 10 requests per slot.
    front_end = kSglang;
    load.requests = std::min(10 * row.concurrency, 2000);
    load.batching = Batching::Chunked;
    load.max_batched_tokens = row.concurrency + prompt + kPromptRoom;
  }
  load.front_end_s = front_end.per_request_s + front_end.per_prompt_token_s * row.input_tokens;
  load.front_end_token_s = front_end.per_token_s;
}

}  // namespace

bool SampleRow::fixed_lengths() const { return contains(source, "gap-analysis"); }

Load load_of(const SampleRow& row) {
  Load load;
  load.concurrency = row.concurrency;
  load.input_mean = row.input_tokens;
  load.output_mean = row.output_tokens;
  load.batching = row.backend == "trtllm"   ? Batching::WholePrompts
                  : row.backend == "sglang" ? Batching::PromptsFirst
                                            : Batching::Chunked;
  load.grows = row.backend == "vllm";
  load.overlapped = row.backend != "vllm";  // their default; vLLM's came after these versions
  load.front_end_s = kLight.per_request_s;
  if (row.fixed_lengths()) {
    generated_engine(row, load);
  } else {
    load.requests = 10 * row.concurrency;
    load.shortest = 0.8;  // uniform within 80 to 100 % of the nominal length
  }
  return load;
}

}  // namespace wattle::fidelity
