#include "launch/engine_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace wattle::launch {

std::vector<std::string> engine_arguments(const engine::EngineOptions& o) {
  std::vector<std::string> all{"--max-num-seqs",
                               std::to_string(o.max_num_seqs),
                               "--max-num-batched-tokens",
                               std::to_string(o.max_num_batched_tokens),
                               "--block-size",
                               std::to_string(o.block_size),
                               "--gpu-memory-utilization",
                               fmt::format("{}", o.gpu_memory_utilization),
                               "--activation-bytes-per-gpu",
                               fmt::format("{}", o.activation_bytes_per_gpu)};
  const auto gap = [&](const char* name, const std::optional<Span>& value) {
    if (value) all.insert(all.end(), {name, fmt::format("{}", value->millis())});
  };
  gap("--step-gap-ms", o.step_gap);
  gap("--request-gap-ms", o.request_gap);
  if (o.decode_attention_efficiency) {
    all.insert(all.end(), {"--decode-attention-efficiency", fmt::format("{}", *o.decode_attention_efficiency)});
  }
  if (!o.graph_sizes.empty())
    all.insert(all.end(), {"--graph-sizes", fmt::format("{}", fmt::join(o.graph_sizes, ","))});
  return all;
}

}  // namespace wattle::launch
