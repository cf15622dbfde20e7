#pragma once
// Time and power of a single step, for rows that measured single steps.
#include "engine/step_model.h"

namespace wattle::fidelity {

/// Seconds of a duration in the engine's fixed point.
[[nodiscard]] constexpr double seconds_of(std::int64_t fixed) {
  return static_cast<double>(fixed) * 1e-9 / static_cast<double>(std::int64_t{1} << engine::kTimeFractionBits);
}

struct StepValue {
  double seconds = 0.0;
  double watts = 0.0;  ///< of the whole instance
  [[nodiscard]] double joules() const { return seconds * watts; }
};

[[nodiscard]] inline StepValue step_value(const engine::StepModel& model, const StepShape& shape, MegaHertz clock) {
  const engine::StepCost cost = model.mixed(shape, clock);
  return {seconds_of(cost.duration), to_watts(cost.power).value()};
}

}  // namespace wattle::fidelity
