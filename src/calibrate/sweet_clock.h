#pragma once
#include "engine/options.h"
#include "engine/step_model.h"
#include "model/instance.h"
#include "units/quantity.h"

namespace wattle::calibrate {

/// The clock of least energy per token, busy, of an engine of this role: of the GPU's clocks the one at which time x
/// power of one step is least, the lowest of equals. The step: for prefill engines 2,048 prompt tokens (at most
/// max_num_batched_tokens) in prompts of 256; for the others decodes of 128 requests (at most max_num_seqs) with 1,024
/// tokens of context each, as far as the KV cache holds them. What an idle GPU would draw counts as well: a slower
/// clock pays for it longer. Searched from coarse to fine, which finds the least of a curve with one valley. Pure; some
/// ten milliseconds, for the model's tables of some twenty clocks.
[[nodiscard]] MegaHertz sweet_clock(const engine::StepModel& model, const engine::EngineOptions& options, Role role);

/// The instance's sweet spot, by its role, and where measurements begin if they reach down to it.
void set_sweet_spot(InstanceSpec& spec, const engine::StepModel& model, const engine::EngineOptions& options);

}  // namespace wattle::calibrate
