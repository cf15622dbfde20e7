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
  bool find_host = false;  ///< detected (host_line.h); or T_D is its planes alone, as published
  /// The published form T_P = a N_tok + c. Otherwise ranges of N_tok, each with a term for the prompts' attention.
  bool published_prefill = false;
  /// Do ranges have that term? Without it each is a line of N_tok.
  bool prefill_pairs = true;
  /// Largest N_tok of each range but the last; empty: 8, 32, 64 and powers of two to 4096, as far as every range
  /// has samples.
  std::vector<std::int64_t> prefill_ends;
};

struct LinearFit {
  LinearLatency model;
  FitQuality prefill;
  FitQuality decode;
  /// Samples without a phase or a duration, and those with both phases where one of them was not measured by itself.
  std::int64_t ignored = 0;
};

/// Fits EcoPred's linear form robustly (least_squares.h), every clock and tile on its own; samples with both phases
/// show the rest, what such steps take beyond what the lines of either phase say (not in the published form).
/// Deterministic. Steps that the host decides set the host's line and no plane. A tile that a clock never measured
/// takes the plane of its nearest measured neighbour, the smaller one first. Errors: no usable sample; a clock that is
/// not positive.
[[nodiscard]] Result<LinearFit> fit_linear(std::span<const StepSample> samples, const LinearFitOptions& options = {});

}  // namespace wattle::predict
