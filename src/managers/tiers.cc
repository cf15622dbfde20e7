#include "managers/tiers.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace wattle::managers {

Result<TierSplit> split_tiers(const plan::ProfiledClass& of, const std::vector<TierLoad>& tiers, int gpus,
                              Watts unused_gpu, int gpus_per_node) {
  constexpr std::size_t kMost = 12;
  if (tiers.empty() || tiers.size() > kMost) return bad_input(of.name, "has no tier, or more than 12");
  std::vector<std::size_t> order(tiers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, {},
                           [&](std::size_t t) { return std::pair(tiers[t].limits.tbt, tiers[t].limits.ttft); });
  TierSplit best;
  double least_shed = 0.0;
  bool any = false;
  // A bit for each border between neighbours: set where they are kept apart.
  for (std::uint32_t borders = 0; borders < (1U << (tiers.size() - 1)); ++borders) {
    std::vector<plan::ShardClass> pools;
    std::vector<std::size_t> pool_of(tiers.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const TierLoad& tier = tiers[order[i]];
      if (i == 0 || (borders >> (i - 1) & 1U) != 0)
        pools.push_back({of.name, 0.0, tier.limits, tier.profiles.empty() ? of.profiles : tier.profiles, 1.0});
      plan::ShardClass& pool = pools.back();
      pool.load_per_s += tier.load_per_s;
      pool.limits.ttft = std::min(pool.limits.ttft, tier.limits.ttft);
      pool.limits.tbt = std::min(pool.limits.tbt, tier.limits.tbt);
      pool_of[order[i]] = pools.size() - 1;
    }
    // From strict to loose "the next larger pool" would loosen an objective: pools are planned without sending on.
    const Watts unused = gpus_per_node > 0 ? Watts() : unused_gpu * gpus;  // in what each pool's program says
    Watts power = unused;
    double shed = 0.0;
    for (const plan::ShardClass& pool : pools) {
      const plan::ShardingProblem own{{pool}, gpus, unused_gpu, gpus_per_node};
      const auto plan = plan::plan_sharding(own, {.relative_gap = 1e-3, .nodes = 5'000});
      if (!plan) return std::unexpected(plan.error());
      if (!plan->found()) continue;
      power += plan->power - unused;
      shed += plan->shed_per_s[0];
    }
    if (borders == 0) best.one_pool = best.apart = power;
    if (borders == 1 || (borders > 1 && power < best.apart)) best.apart = power;
    constexpr double kSame = 1e-9;
    const bool better = !any || shed < least_shed - kSame || (shed <= least_shed + kSame && power < best.split);
    if (!better) continue;
    any = true;
    least_shed = shed;
    best.split = power;
    best.pool_of = std::move(pool_of);
  }
  return best;
}

}  // namespace wattle::managers
