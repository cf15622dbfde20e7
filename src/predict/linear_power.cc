#include "predict/linear_power.h"

#include <algorithm>
#include <cmath>

namespace wattle::predict {

Result<LinearPower> LinearPower::make(LinearLatency time, PowerCoefficients coefficients) {
  auto energy = LinearLatency::make(std::move(coefficients.energy));
  if (!energy) return std::unexpected(energy.error());
  if (coefficients.idle.size() != energy->coefficients().clocks.size()) {
    return bad_input("power model", "needs one idle power for each clock");
  }
  return LinearPower(std::move(time), std::move(*energy), std::move(coefficients.idle));
}

Picojoules LinearPower::step_energy(const StepShape& shape, MegaHertz clock) const {
  return Picojoules(Int128{energy_nj_.step_time(shape, clock).ns()} * 1000);
}

Milliwatts LinearPower::step_power(const StepShape& shape, MegaHertz clock) const {
  if (!shape.idle()) {
    const Span time = time_.step_time(shape, clock);
    if (time <= Span()) return Milliwatts(0);
    return Milliwatts(static_cast<std::int64_t>(step_energy(shape, clock).value() / time.ns()));
  }
  const auto& clocks = energy_nj_.coefficients().clocks;
  if (clocks.size() == 1) return idle_.front();
  std::size_t above = 1;
  while (above + 1 < clocks.size() && clocks[above].clock < clock) ++above;
  const double low = clocks[above - 1].clock.value();
  const double high = clocks[above].clock.value();
  const double share = std::clamp((clock.value() - low) / (high - low), 0.0, 1.0);
  const auto from = static_cast<double>(idle_[above - 1].value());
  return Milliwatts(std::llround(from + share * (static_cast<double>(idle_[above].value()) - from)));
}

}  // namespace wattle::predict
