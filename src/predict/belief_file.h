#pragma once
// The file of a latency and power model (belief), which `wattle fit PROFILE` writes and simulator, gateway and agent
// read (docs/profiling.md).
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
  PowerCoefficients power;  ///< same clocks and tiles as `time`; no clocks: power was not measured
};

struct BeliefFit {
  LinearBelief belief;
  FitQuality prefill;
  FitQuality decode;
  std::int64_t clipped = 0;  ///< number of rows that ran below their locked clock
};

/// Fits time per (clock, tile), with tile borders detected in the profile, and energy per step on the rows with power.
/// Energy needs a row with power for every measured phase and an idle row at every clock; otherwise it is left out.
/// Deterministic. Errors: those of fit_linear.
[[nodiscard]] Result<BeliefFit> fit_belief(const StepProfile& profile);

/// Parses the file's text. Errors, with line and column: a missing column; a value that is not a number or is negative;
/// clocks that do not ascend; tiles or ranges that differ between clocks or leave gaps; a duplicate row; no rows.
[[nodiscard]] Result<LinearBelief> parse_belief(std::string_view text, const std::string& file);

/// parse_belief returns the same coefficients (to nine digits).
[[nodiscard]] std::string to_csv(const LinearBelief& belief);

}  // namespace wattle::predict
