#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "predict/linear_latency.h"
#include "predict/step_sample.h"

namespace wattle::predict {

struct LinearFitOptions {
  /// Largest batch of each tile but the last; empty with find_tiles set: detected (staircase.h).
  std::vector<std::int32_t> tile_ends;
  bool find_tiles = true;
  bool find_host = false;  ///< detect host time (host_line.h); false: T_D is its planes only, as published
  /// The published form T_P = a N_tok + c. Otherwise ranges of N_tok, each with terms for the prompts' attention and
  /// number.
  bool published_prefill = false;
  /// Whether ranges have those terms; otherwise each is linear in N_tok.
  bool prefill_pairs = true;
  /// The model's, for those terms.
  WindowedLayers windowed = {};
  /// Largest N_tok of each range but the last; empty with find_ranges set: 8, 32, 64 and powers of two up to 4096, as
  /// far as every range has samples.
  std::vector<std::int64_t> prefill_ends;
  bool find_ranges = true;
};

struct LinearFit {
  LinearLatency model;
  FitQuality prefill;
  FitQuality decode;
  /// Samples without a phase or a duration, and samples with both phases if one of them was not measured separately.
  std::int64_t ignored = 0;
};

/// Fits EcoPred's linear form robustly (least_squares.h), separately for every clock and tile; samples with both phases
/// determine how much longer such steps are than either phase's model predicts (not in the published form).
/// Deterministic. Steps bound by the host determine the host line and no plane. A tile that was never measured at a
/// clock takes the plane of its nearest measured neighbour, preferring the smaller. Errors: no usable sample; a clock
/// that is not positive.
[[nodiscard]] Result<LinearFit> fit_linear(std::span<const StepSample> samples, const LinearFitOptions& options = {});

}  // namespace wattle::predict
