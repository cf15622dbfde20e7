#pragma once
// throttLL'eM's collection procedure for its performance model M (section IV-C1), on a simulated engine.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/step_model.h"
#include "predict/step_sample.h"

namespace wattle::calibrate {

/// For every batch size up to max_num_seqs: so many requests of one prompt token, as long as fill the KV cache in their
/// last iteration. About once a second a new clock is drawn among `clocks` and, once it is effective, one second is
/// measured: batch, KV tokens in the middle, mean iteration time. Uses only what an engine reports of itself; the
/// simulated one has no measurement noise. Deterministic; 1,000 to 200,000 samples for the paper's engines, and 0.1 s
/// for 10,000. The larger the KV cache, the more it would be: beyond about `most` samples clocks are drawn less often
/// than once a second, as evenly as before.
[[nodiscard]] std::vector<predict::StepSample> collect_rates(const engine::StepModel& model,
                                                             const engine::EngineOptions& options,
                                                             std::span<const MegaHertz> clocks,
                                                             std::int64_t most = 250'000);

}  // namespace wattle::calibrate
