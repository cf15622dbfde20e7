#pragma once
// Finds the batch sizes at which decode time jumps (tile and CUDA-graph borders) in profiled steps.
#include <cstdint>
#include <span>
#include <vector>

#include "predict/step_sample.h"

namespace wattle::predict {

/// Largest batch of each tile but the last, ascending; empty when one plane explains everything. All clocks share the
/// borders. The best segmentation of the measured batch sizes into planes per clock, by dynamic programming with a
/// price per tile (Bayesian information criterion, noise no lower than 0.2 %), errors relative to the step, so smooth
/// curvature below about 1 % is no border; every tile holds two measured batch sizes at least. A border between two
/// measured batch sizes is put at the lower one, and only where a multiple of 4 (to 16) or of 8 (beyond) is between
/// them: profile both sides of where you expect it. Wild samples are left out where a batch size was measured
/// at least five times. Ignores samples with prompt tokens.
[[nodiscard]] std::vector<std::int32_t> find_tile_ends(std::span<const StepSample> samples);

}  // namespace wattle::predict
