#pragma once
#include "engine/options.h"
#include "engine/step_model.h"
#include "model/instance.h"
#include "units/quantity.h"

namespace wattle::calibrate {

/// The lockable clock of least energy per token for a busy engine of this role: the one at which time x power of one
/// step is lowest, on ties the lowest. The step: for prefill engines 2,048 prompt tokens (at most
/// max_num_batched_tokens) in prompts of 256; for others decodes of 128 requests (at most max_num_seqs) with 1,024
/// tokens of context each, as far as the KV cache holds them. Idle power is included, so a slower clock pays for it
/// longer. Searched from coarse to fine, assuming a curve with one minimum. Pure; about ten milliseconds, for the
/// model's tables of about twenty clocks.
[[nodiscard]] MegaHertz sweet_clock(const engine::StepModel& model, const engine::EngineOptions& options, Role role);

/// Sets the instance's sweet spot, by its role, and the lowest measured clock if measurements reach below the sweet
/// spot.
void set_sweet_spot(InstanceSpec& spec, const engine::StepModel& model, const engine::EngineOptions& options);

}  // namespace wattle::calibrate
