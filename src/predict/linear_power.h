#pragma once
// Power as a belief: energy per step in the same linear form as its time, and idle power per clock.
#include <vector>

#include "base/error.h"
#include "model/beliefs.h"
#include "predict/linear_latency.h"

namespace wattle::predict {

/// A step's energy is its base draw for as long as it takes, plus so much per operation and per byte: linear in what
/// time is linear in. So energy takes LinearCoefficients too, 1 ns there standing for 1 nJ of the whole instance.
struct PowerCoefficients {
  LinearCoefficients energy;
  std::vector<Milliwatts> idle;  ///< one per clock of `energy`
};

/// step_power = predicted energy / predicted time; clocks between fitted ones as LinearLatency has them, idle power
/// linearly in the clock. Immutable and thread-safe; no allocation.
class LinearPower final : public PowerModel {
 public:
  /// Errors: those of LinearLatency::make; idle power not one per clock.
  [[nodiscard]] static Result<LinearPower> make(LinearLatency time, PowerCoefficients coefficients);

  /// 0 for a phase that was never measured.
  [[nodiscard]] Milliwatts step_power(const StepShape& shape, MegaHertz clock) const override;
  /// Energy of one such step; of an idle shape 0.
  [[nodiscard]] Picojoules step_energy(const StepShape& shape, MegaHertz clock) const;

 private:
  LinearPower(LinearLatency time, LinearLatency energy, std::vector<Milliwatts> idle)
      : time_(std::move(time)), energy_nj_(std::move(energy)), idle_(std::move(idle)) {}

  LinearLatency time_;
  LinearLatency energy_nj_;
  std::vector<Milliwatts> idle_;
};

}  // namespace wattle::predict
