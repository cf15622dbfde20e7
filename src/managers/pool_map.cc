#include "managers/pool_map.h"

#include <functional>
#include <utility>

#include "base/check.h"

namespace wattle::managers {

PoolMap::PoolMap(const plan::LoadTable& table, std::size_t pools, std::map<int, MegaHertz> lowest_clocks)
    : table_(table), lowest_clocks_(std::move(lowest_clocks)), tiers_(static_cast<std::size_t>(table.tiers)) {
  const std::size_t classes = table.classes.size() / tiers_;
  const std::size_t count = pools == 0 ? classes : pools;
  WATTLE_CHECK(count >= 1 && count <= classes, "as many pools as classes at most");
  heaviest_.resize(count * tiers_);
  for (std::size_t c = 0; c < classes * tiers_; ++c) {
    pool_of_.push_back(c / tiers_ * count / classes * tiers_ + c % tiers_);
    heaviest_[pool_of_.back()] = c;
  }
}

std::vector<double> PoolMap::by_pool(const std::vector<double>& rate_per_s) const {
  std::vector<double> load(pools(), 0.0);
  for (std::size_t c = 0; c < classes() && c < rate_per_s.size(); ++c) {
    const std::size_t heaviest = heaviest_[pool_of_[c]];
    const double each = c == heaviest ? 1.0 : plan::load_in(table_.classes[c], table_.classes[heaviest]);
    load[pool_of_[c]] += rate_per_s[c] * each;
  }
  return load;
}

/// Without those that instances at work are never given. All stay where none else is left.
std::vector<plan::ShardProfile> PoolMap::given_clocks(std::vector<plan::ShardProfile> profiles) const {
  const auto given = [this](const plan::ShardProfile& profile) {
    const auto lowest = lowest_clocks_.find(profile.tp);
    return lowest == lowest_clocks_.end() || profile.clock >= lowest->second;
  };
  if (std::ranges::any_of(profiles, given)) std::erase_if(profiles, std::not_fn(given));
  return profiles;
}

plan::ShardingProblem PoolMap::problem(const std::vector<double>& load_per_s, int gpus, Watts unused_gpu) const {
  plan::ShardingProblem problem;
  problem.gpus = gpus;
  problem.unused_gpu = unused_gpu;
  for (std::size_t p = 0; p < pools(); ++p) {
    const plan::ProfiledClass& one = profile(p);
    plan::ShardClass made{one.name, load_per_s[p], one.limits, given_clocks(one.profiles), 1.0};
    made.next = next(p) - p;
    // A looser tier's request is the same work as a stricter one's of its size, whatever each pool may carry of them.
    const bool of_size = (p + 1) % tiers_ != 0;
    if (!of_size && next(p) < pools()) made.load_in_next = plan::load_in(one, profile(next(p)));
    problem.classes.push_back(std::move(made));
  }
  return problem;
}

}  // namespace wattle::managers
