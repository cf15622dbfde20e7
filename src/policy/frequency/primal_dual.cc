#include "policy/frequency/primal_dual.h"

#include <algorithm>
#include <cmath>

namespace wattle::policy {

namespace {
constexpr double kMostDual = 10.0;  ///< times the value that follows from the users' utilities alone
constexpr double kMostPush = 4.0;   ///< or what balances the power's price

double slope(const ClockCurves& curves, double ghz, double (ClockCurves::*of)(double) const) {
  const double low = std::max(ghz - curves.step_ghz, curves.lowest_ghz);
  const double high = std::min(ghz + curves.step_ghz, curves.highest_ghz);
  return high > low ? ((curves.*of)(high) - (curves.*of)(low)) / (high - low) : 0.0;
}
}  // namespace

PrimalDual::Balance PrimalDual::balance(const ClockCurves& curves) const {
  return {dual_ * slope(curves, clock_, &ClockCurves::rate_per_s),
          price_ * slope(curves, clock_, &ClockCurves::power_w)};
}

void PrimalDual::step(const ClockCurves& curves, std::span<const Flow> flows) {
  const double rate = curves.rate_per_s(clock_);
  double users = 0.0;
  double weights = 0.0;
  for (const Flow& flow : flows) users += flow.count, weights += flow.count * flow.weight;
  if (dual_ == 0.0) dual_ = weights / rate;
  rates_.resize(flows.size(), rate / users);
  double sum = 0.0;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (flows[i].count == 0.0) continue;
    // k of y is gain x y / gamma: a step towards U' = gamma.
    rates_[i] = std::max(rates_[i] + gain_ * (flows[i].weight / dual_ - rates_[i]), flows[i].least_per_s);
    sum += flows[i].count * rates_[i];
  }
  const auto [gain, cost] = balance(curves);
  const double size = std::abs(gain) + std::abs(cost);
  const double range = curves.highest_ghz - curves.lowest_ghz;
  if (size > 0.0) clock_ += gain_ * range * (gain - cost) / size;
  clock_ = std::clamp(clock_, curves.lowest_ghz, curves.highest_ghz);
  dual_ *= 1.0 + gain_ * std::clamp(sum / rate - 1.0, -1.0, 1.0);
  const double pushes = gain > 0.0 ? kMostPush * dual_ * cost / gain : 0.0;
  dual_ = std::min(dual_, std::max(kMostDual * weights / rate, pushes));
}

double PrimalDual::residual(const ClockCurves& curves, std::span<const Flow> flows) const {
  double worst = 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (flows[i].count == 0.0) continue;
    const double wanted = std::max(flows[i].weight / dual_, flows[i].least_per_s);
    worst = std::max(worst, std::abs(rates_[i] / wanted - 1.0));
    sum += flows[i].count * rates_[i];
  }
  worst = std::max(worst, std::abs(sum / curves.rate_per_s(clock_) - 1.0));
  const auto [gain, cost] = balance(curves);
  const double off = gain / cost - 1.0;
  const bool pushed_up = clock_ >= curves.highest_ghz && off > 0.0;
  const bool pushed_down = clock_ <= curves.lowest_ghz && off < 0.0;
  return pushed_up || pushed_down ? worst : std::max(worst, std::abs(off));
}

}  // namespace wattle::policy
