#include "managers/learned_reserve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace wattle::managers {

namespace {

constexpr double kSteps = 50.0;
constexpr Span kLongest = Span::s(600);  ///< counts as so long: who was away for longer does not know when it was

std::vector<std::size_t> own_pools(const PoolMap& pools) {
  std::vector<std::size_t> own;
  for (std::size_t c = 0; c < pools.classes(); ++c) own.push_back(pools.pool_of(c));
  return own;
}

}  // namespace

LearnedReserve::LearnedReserve(std::vector<double> may_be_late, std::vector<std::size_t> pool_of,
                               const LearnedReserveOptions& options)
    : options_(options),
      late_(std::move(may_be_late)),
      pool_of_(std::move(pool_of)),
      reserve_(pool_of_.empty() ? 0 : std::ranges::max(pool_of_) + 1, 0.0) {
  WATTLE_CHECK(late_.size() == pool_of_.size(), "both are by class");
}

LearnedReserve::LearnedReserve(const plan::LoadTable& table, const PoolMap& pools, const LearnedReserveOptions& options)
    : LearnedReserve(plan::may_be_late(table, options.late), own_pools(pools), options) {}

void LearnedReserve::learn(const TurnedOut& fresh, std::span<const PoolWeight> weights, Instant now) {
  const Span since = heard_ == Instant::never() ? Span() : std::clamp(now - heard_, Span(), kLongest);
  heard_ = now;
  if (options_.gain <= 0.0) return;
  std::vector<double> came(late_.size(), 0.0), beyond_of(late_.size(), 0.0);
  fresh.each([&](ClassId taken_for, ClassId, std::int64_t n) {
    const auto c = static_cast<std::size_t>(taken_for.value());
    if (c >= late_.size()) return;
    came[c] += static_cast<double>(n);
    beyond_of[c] -= late_[c] * static_cast<double>(n);
  });
  for (std::size_t c = 0; c < std::min(late_.size(), fresh.late().size()); ++c) {
    beyond_of[c] += static_cast<double>(fresh.late()[c]);
  }
  std::vector<double> finished(reserve_.size(), 0.0), beyond(reserve_.size(), 0.0);
  for (std::size_t c = 0; c < late_.size(); ++c) {
    const auto count = [&](std::size_t pool, double share) {
      finished[pool] += share * came[c];
      beyond[pool] += share * beyond_of[c];
    };
    double sum = 0.0;
    const auto is_of = [&](const PoolWeight& w) {
      return w.request_class.value() == static_cast<std::int32_t>(c) && w.pool.value() >= 0 &&
             static_cast<std::size_t>(w.pool.value()) < reserve_.size();
    };
    for (const PoolWeight& w : weights) sum += is_of(w) ? w.weight : 0.0;
    if (sum <= 0.0) count(pool_of_[c], 1.0);
    for (const PoolWeight& w : weights) {
      if (sum > 0.0 && is_of(w)) count(static_cast<std::size_t>(w.pool.value()), w.weight / sum);
    }
  }
  const double minutes = since.seconds() / 60.0;
  for (std::size_t p = 0; p < reserve_.size(); ++p) {
    if (finished[p] <= 0.0) continue;
    reserve_[p] = std::clamp(reserve_[p] + options_.gain * minutes * beyond[p] / finished[p], 0.0, options_.most);
  }
}

std::vector<double> LearnedReserve::by_pool() const {
  std::vector<double> rounded;
  for (const double share : reserve_) rounded.push_back(std::round(share * kSteps) / kSteps);
  return rounded;
}

}  // namespace wattle::managers
