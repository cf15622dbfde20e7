#pragma once
// Belief as a file: what `wattle fit PROFILE` writes and simulator, gateway and agent read (docs/profiling.md).
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "predict/linear_fit.h"
#include "predict/linear_power.h"
#include "predict/step_profile.h"

namespace wattle::predict {

struct LinearBelief {
  std::vector<std::string> provenance;  ///< lines of "key: value"
  LinearCoefficients time;
  PowerCoefficients power;  ///< same clocks and tiles as `time`; without clocks: power was not measured
};

struct BeliefFit {
  LinearBelief belief;
  FitQuality prefill;
  FitQuality decode;
  std::int64_t clipped = 0;  ///< rows that ran below their locked clock
};

/// Fits time per (clock, tile), with tile borders found in the profile, and energy per step on the rows with power;
/// energy needs a powered row of every measured phase and an idle row at every clock, or it is left out. Deterministic.
/// Errors: those of fit_linear.
[[nodiscard]] Result<BeliefFit> fit_belief(const StepProfile& profile);

/// Reads the file's text. Refused with line and column: a column missing, a value that is no number or negative, clocks
/// not ascending, tiles or ranges that differ between clocks or leave a gap, a row twice, no rows.
[[nodiscard]] Result<LinearBelief> parse_belief(std::string_view text, const std::string& file);

/// parse_belief reads it back to the same coefficients (to nine digits).
[[nodiscard]] std::string to_csv(const LinearBelief& belief);

}  // namespace wattle::predict
