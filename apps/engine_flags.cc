#include "engine_flags.h"

#include "experiment/live_fleet.h"

namespace wattle::apps {

void add_engine_flags(Command command, engine::EngineOptions& o) {
  command.add_option("--max-num-seqs", o.max_num_seqs, "Requests running at once in an engine")
      .check(range(1, 65536))
      .capture_default_str();
  command.add_option("--max-num-batched-tokens", o.max_num_batched_tokens, "Tokens per step")
      .check(range(16, 1 << 20))
      .capture_default_str();
  command.add_option("--block-size", o.block_size, "KV tokens per block").check(range(1, 1024)).capture_default_str();
  command.add_option("--gpu-memory-utilization", o.gpu_memory_utilization, "Share of a GPU's memory in use")
      .check(range(0.01, 1.0))
      .capture_default_str();
  command.add_option("--activation-bytes-per-gpu", o.activation_bytes_per_gpu, "Set aside before KV blocks are counted")
      .check(non_negative())
      .capture_default_str();
  const auto gap = [&](const char* name, std::optional<Span>& to, const char* what) {
    command
        .add_option_function(
            name, [&to](double ms) { to = Span::from_seconds(ms * 1e-3); }, what)
        .check(range(0.0, 100.0));
  };
  gap("--step-gap-ms", o.step_gap,
      "The framework's CPU time per step; default: what the GPU's profile was fitted with");
  gap("--request-gap-ms", o.request_gap, "Time per request of a step for logits and sampling; default: the profile's");
  command
      .add_option("--decode-attention-efficiency", o.decode_attention_efficiency,
                  "Share of the memory bandwidth at which decode attention reads KV; default: the profile's")
      .check(range(0.1, 1.0));
  command
      .add_option("--graph-sizes", o.graph_sizes,
                  "Batches for which CUDA graphs were captured, ascending; none: 1, 2, 4 and eights to 128")
      .delimiter(',')
      .check(range(1, 65536));
}

void add_fleet_flags(Command command, experiment::LiveFleetOptions& o) {
  command.add_option("--recipe", o.recipe, "Policies by recipe name or file (recipes/)").capture_default_str();
  command.add_option("--set", o.overrides, "key=value: changes a recipe key");
  command.add_option("--gpu", o.gpu, "What kind of GPU the engines run on (specs/gpus)").capture_default_str();
  command.add_option("--llm", o.llm, "The model they serve (specs/llms)").capture_default_str();
  add_engine_flags(command, o.engine);
}

}  // namespace wattle::apps
