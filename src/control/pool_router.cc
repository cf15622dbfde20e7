#include "control/pool_router.h"

#include <algorithm>

namespace wattle::control {

double shed_share(std::span<const PoolWeight> weights, ClassId request_class) {
  double sum = 0.0;
  bool said = false;
  for (const PoolWeight& w : weights) {
    if (w.request_class != request_class) continue;
    said = true;
    sum += std::max(w.weight, 0.0);
  }
  constexpr double kRounding = 1e-6;
  return said && sum < 1.0 - kRounding ? 1.0 - sum : 0.0;
}

bool sheds_any(std::span<const PoolWeight> weights) {
  return std::ranges::any_of(weights, [&](const PoolWeight& w) { return shed_share(weights, w.request_class) > 0.0; });
}

PoolRouter::PoolRouter(const std::vector<Pool>& pools, std::int32_t classes, std::int32_t tiers)
    : stated_(pools), classes_(classes), tiers_(tiers) {
  reroute({}, static_cast<std::int32_t>(pools.size()));
}

void PoolRouter::sort_by(std::int32_t classes, std::int32_t tiers) {
  classes_ = classes;
  tiers_ = tiers;
}

void PoolRouter::add_share(std::int32_t request_class, PoolId pool, double weight) {
  if (request_class < 0 || pool.value() < 0 || weight <= 0.0) return;
  const auto c = static_cast<std::size_t>(request_class);
  if (c >= shares_.size()) shares_.resize(c + 1);
  shares_[c].push_back({pool, weight, 0.0});
}

void PoolRouter::reroute(std::span<const PoolWeight> weights, std::int32_t pools) {
  shares_.assign(static_cast<std::size_t>(std::max(classes_, 1)), {});
  for (const PoolWeight& w : weights) {
    pools = std::max(pools, w.pool.value() + 1);
    add_share(w.request_class.value(), w.pool, w.weight);
  }
  lacks_.assign(shares_.size(), {});
  for (std::size_t c = 0; c < shares_.size(); ++c) {
    lacks_[c].share = shed_share(weights, ClassId(static_cast<std::int32_t>(c)));
  }
  const auto last = static_cast<std::int32_t>(shares_.size()) - 1;
  const auto for_all = [](const Pool& pool) { return pool.classes.empty(); };
  for (std::int32_t c = 0; c <= last; ++c) {
    auto& shares = shares_[static_cast<std::size_t>(c)];
    if (!shares.empty()) continue;
    for (const Pool& pool : stated_) {
      if (std::ranges::find(pool.classes, ClassId(c)) != pool.classes.end()) add_share(c, pool.id, 1.0);
    }
    for (const Pool& pool : stated_) {
      if (shares.empty() && for_all(pool)) add_share(c, pool.id, 1.0);
    }
  }
  // A pool without stated classes serves all, so it counts as the largest.
  sizes_.assign(static_cast<std::size_t>(std::max(pools, 1)), -1);
  tier_.assign(sizes_.size(), 0);
  for (std::int32_t c = 0; c <= last; ++c) {
    for (const Share& share : shares_[static_cast<std::size_t>(c)]) {
      const auto p = static_cast<std::size_t>(share.pool.value());
      sizes_[p] = std::max(sizes_[p], c);
      tier_[p] = std::max(tier_[p], c % tiers_);
    }
  }
  for (std::size_t p = 0; p < sizes_.size(); ++p) {
    if (sizes_[p] >= 0) continue;
    sizes_[p] = last;
    tier_[p] = tiers_ - 1;
  }
  by_size_.clear();
  for (std::int32_t p = 0; p < static_cast<std::int32_t>(sizes_.size()); ++p) by_size_.emplace_back(p);
  std::ranges::stable_sort(by_size_, {}, [this](PoolId p) { return sizes_[static_cast<std::size_t>(p.value())]; });
  order_.reserve(by_size_.size());
}

bool PoolRouter::sheds(ClassId request_class) {
  Lack& lack = lacks_[place_of(request_class)];
  lack.credit += lack.share;
  if (lack.credit < 1.0) return false;
  lack.credit -= 1.0;
  return true;
}

PoolRouter::Order PoolRouter::next(ClassId request_class) {
  const std::size_t c = place_of(request_class);
  Share* first = nullptr;
  double total = 0.0;
  for (Share& share : shares_[c]) {
    share.credit += share.weight;
    total += share.weight;
    if (first == nullptr || share.credit > first->credit) first = &share;
  }
  if (first != nullptr) first->credit -= total;
  return order(c, first);
}

PoolRouter::Order PoolRouter::reach(ClassId request_class) { return order(place_of(request_class), nullptr); }

PoolRouter::Order PoolRouter::order(std::size_t c, const Share* first) {
  order_.clear();
  const auto take = [this](PoolId pool) {
    if (std::ranges::find(order_, pool) == order_.end()) order_.push_back(pool);
  };
  if (first != nullptr) take(first->pool);
  for (const Share& share : shares_[c]) take(share.pool);
  const std::size_t own = order_.size();
  const auto size_of = [this](PoolId p) { return sizes_[static_cast<std::size_t>(p.value())]; };
  for (const PoolId pool : by_size_) {
    const bool strict = tier_[static_cast<std::size_t>(pool.value())] >= static_cast<std::int32_t>(c) % tiers_;
    if (strict && size_of(pool) >= static_cast<std::int32_t>(c)) take(pool);
  }
  const std::size_t fit = order_.size();
  for (auto pool = by_size_.rbegin(); pool != by_size_.rend(); ++pool) take(*pool);
  return {order_, own, fit};
}

std::span<const PoolId> PoolRouter::larger(PoolId than) {
  const auto size_of = [this](PoolId p) { return sizes_[static_cast<std::size_t>(p.value())]; };
  order_.assign(1, than);
  for (const PoolId pool : by_size_) {
    const bool strict = tier_[static_cast<std::size_t>(pool.value())] >= tier_[static_cast<std::size_t>(than.value())];
    if (pool != than && strict && size_of(pool) >= size_of(than)) order_.push_back(pool);
  }
  return order_;
}

}  // namespace wattle::control
