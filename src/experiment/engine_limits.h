#pragma once
#include "engine/options.h"
#include "model/instance.h"

namespace wattle::experiment {

/// What policies know of the engine's scheduler. `engine`: of all its data-parallel groups together.
inline void set_limits(InstanceSpec& spec, const engine::EngineOptions& engine) {
  spec.kv_block_tokens = engine.block_size;
  spec.max_requests = engine.max_num_seqs;
  spec.max_step_tokens = engine.max_num_batched_tokens;
  spec.decode_tokens = engine.chunked_prefill ? 1 + engine.speculative_tokens : 0;  // otherwise prompts run alone
}

}  // namespace wattle::experiment
