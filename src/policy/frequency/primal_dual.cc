#include "policy/frequency/primal_dual.h"

#include <numeric>
#include <utility>

namespace wattle::policy {

PrimalDual::PrimalDual(ClockCurves curves, PrimalDualOptions options)
    : curves_(std::move(curves)), options_(std::move(options)), clock_(curves_.highest_ghz) {
  const double total = std::reduce(options_.weights.begin(), options_.weights.end());
  const double rate = curves_.rate_per_s(clock_);
  for (const double w : options_.weights) rates_.push_back(rate * w / total);
  dual_ = total / rate;
  // Steps that move each variable by a small share of its own size per unit of relative violation.
  constexpr double kShare = 0.02;
  if (options_.gain_rate == 0.0) options_.gain_rate = kShare * rate / (dual_ * static_cast<double>(rates_.size()));
  if (options_.gain_clock == 0.0) {
    options_.gain_clock = kShare * clock_ / (options_.price * curves_.slope(curves_.power_w, clock_));
  }
  if (options_.gain_dual == 0.0) options_.gain_dual = kShare * dual_ / rate;
}

void PrimalDual::step() {
  double sum = 0.0;
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const double ascent = options_.gain_rate * (options_.weights[i] / rates_[i] - dual_);
    rates_[i] = std::max(rates_[i] + ascent, rates_[i] * 0.5);  // log utilities: never to zero
    sum += rates_[i];
  }
  const double slope =
      dual_ * curves_.slope(curves_.rate_per_s, clock_) - options_.price * curves_.slope(curves_.power_w, clock_);
  clock_ = std::clamp(clock_ + options_.gain_clock * slope, curves_.lowest_ghz, curves_.highest_ghz);
  dual_ = std::max(dual_ + options_.gain_dual * (sum - curves_.rate_per_s(clock_)), 0.0);
}

double PrimalDual::residual() const {
  double worst = 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    worst = std::max(worst, std::abs(options_.weights[i] / rates_[i] / dual_ - 1.0));
    sum += rates_[i];
  }
  worst = std::max(worst, std::abs(sum / curves_.rate_per_s(clock_) - 1.0));
  const double gain = dual_ * curves_.slope(curves_.rate_per_s, clock_);
  const double cost = options_.price * curves_.slope(curves_.power_w, clock_);
  const double balance = gain / cost - 1.0;
  const bool pushed_up = clock_ >= curves_.highest_ghz && balance > 0.0;
  const bool pushed_down = clock_ <= curves_.lowest_ghz && balance < 0.0;
  return pushed_up || pushed_down ? worst : std::max(worst, std::abs(balance));
}

}  // namespace wattle::policy
