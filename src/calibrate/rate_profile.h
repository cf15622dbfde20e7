#pragma once
// throttLL'eM's collection procedure for its performance model M (section IV-C1), on a simulated engine.
#include <span>
#include <vector>

#include "engine/step_model.h"
#include "predict/step_sample.h"

namespace wattle::calibrate {

/// For every batch size up to max_num_seqs: so many requests of one prompt token, as long as fill the KV cache in their
/// last iteration. About once a second a new clock is drawn among `clocks` and, once it is effective, one second is
/// measured: batch, KV tokens in the middle, mean iteration time. Uses only what an engine reports of itself; the
/// simulated one has no measurement noise. Deterministic; about 10,000 samples and 0.1 s.
[[nodiscard]] std::vector<predict::StepSample> collect_rates(const engine::StepModel& model,
                                                             const engine::EngineOptions& options,
                                                             std::span<const MegaHertz> clocks);

}  // namespace wattle::calibrate
