#pragma once
// throttLL'eM's collection procedure for its performance model M (section IV-C1), on a simulated engine.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/step_model.h"
#include "predict/step_sample.h"

namespace wattle::calibrate {

/// For every batch size up to max_num_seqs: that many requests with one prompt token each, long enough to fill the KV
/// cache in their last iteration. About once per second a new clock is drawn from `clocks` and, once it is effective,
/// one second is measured: batch, KV tokens at its middle, mean iteration time. Uses only what an engine reports; the
/// simulated engine has no measurement noise. Deterministic; 1,000 to 200,000 samples for the paper's engines, 0.1 s
/// for 10,000. Beyond about `most` samples (large KV caches) clocks are drawn less often, still evenly.
[[nodiscard]] std::vector<predict::StepSample> collect_rates(const engine::StepModel& model,
                                                             const engine::EngineOptions& options,
                                                             std::span<const MegaHertz> clocks,
                                                             std::int64_t most = 250'000);

}  // namespace wattle::calibrate
