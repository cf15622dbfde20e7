#pragma once
// Finds the batch sizes at which decode time jumps (tile and CUDA-graph borders) in profiled steps.
#include <cstdint>
#include <span>
#include <vector>

#include "predict/step_sample.h"

namespace wattle::predict {

/// Largest batch of each tile but the last, ascending; empty if one plane explains all samples. All clocks share the
/// borders. Finds the best segmentation of the measured batch sizes into planes per clock, by dynamic programming with
/// a cost per tile (Bayesian information criterion, noise of at least 0.2 %). Errors are relative to the step, so
/// smooth curvature below about 1 % is not a border; every tile has at least two measured batch sizes. A border between
/// two measured batch sizes is placed at the lower one, and only if a multiple of 4 (up to 16) or of 8 (above) lies
/// between them: profile both sides of an expected border. Outliers are dropped at batch sizes with at least five
/// measurements. Ignores samples with prompt tokens.
[[nodiscard]] std::vector<std::int32_t> find_tile_ends(std::span<const StepSample> samples);

}  // namespace wattle::predict
