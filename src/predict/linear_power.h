#pragma once
// Power model: energy per step in the same linear form as its time, and idle power per clock.
#include <vector>

#include "base/error.h"
#include "model/beliefs.h"
#include "predict/linear_latency.h"

namespace wattle::predict {

/// A step's energy is base power times its duration plus an amount per operation and per byte, so it is linear in the
/// same terms as time. It is stored as LinearCoefficients, with 1 ns meaning 1 nJ of the whole instance.
struct PowerCoefficients {
  LinearCoefficients energy;
  std::vector<Milliwatts> idle;  ///< one per clock of `energy`
};

/// step_power = predicted energy / predicted time. Between fitted clocks as in LinearLatency, with idle power linear in
/// the clock. Immutable and thread-safe; no allocation.
class LinearPower final : public PowerModel {
 public:
  /// Errors: those of LinearLatency::make; not one idle power per clock.
  [[nodiscard]] static Result<LinearPower> make(LinearLatency time, PowerCoefficients coefficients);

  /// 0 for a phase that was never measured.
  [[nodiscard]] Milliwatts step_power(const StepShape& shape, MegaHertz clock) const override;
  /// Energy of such a step; 0 for an idle shape.
  [[nodiscard]] Picojoules step_energy(const StepShape& shape, MegaHertz clock) const;

 private:
  LinearPower(LinearLatency time, LinearLatency energy, std::vector<Milliwatts> idle)
      : time_(std::move(time)), energy_nj_(std::move(energy)), idle_(std::move(idle)) {}

  LinearLatency time_;
  LinearLatency energy_nj_;
  std::vector<Milliwatts> idle_;
};

}  // namespace wattle::predict
