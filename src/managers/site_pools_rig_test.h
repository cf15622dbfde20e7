#pragma once
// Two sites that SitePools plans over, and who asks it.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "managers/site_pools.h"

namespace wattle::managers {

/// Two sites, one kind, workers of one and two GPUs, two classes.
inline SitePoolsSetup two_sites(std::map<std::size_t, std::optional<double>>& grams) {
  SitePoolsSetup setup;
  setup.problem.kinds = {"A100"};
  setup.problem.modes = {{"TP1", {1}}, {"TP2", {2}}};
  for (int n = 0; n < 2; ++n) setup.problem.sites.push_back({std::to_string(n), {8}, {}, {}});
  plan::RequestPartition partition{"classes", {}};
  for (const char* name : {"S", "L"}) {
    plan::PoolType type;
    type.name = name;
    for (const double per_s : {2.0, 4.5}) {
      plan::WorkerRating rating;
      rating.peak = Watts(per_s * 200.0);
      rating.idle = Watts(per_s * 60.0);
      rating.max_per_s = per_s;
      type.ratings.emplace_back(rating);
    }
    partition.types.push_back(type);
  }
  setup.problem.partitions.push_back(partition);
  setup.shapes = {{0, 1}, {2, 3}};
  setup.nodes = {{0, 0, 8}, {1, 0, 8}};
  setup.intensity = [&grams](std::size_t site, Instant) { return grams.at(site); };
  setup.demand_at_start = {3.0, 3.0};
  return setup;
}

/// What a plan takes in of a class.
inline double weight_of(const Plan& plan, int request_class) {
  double sum = 0.0;
  for (const auto& w : plan.weights) sum += w.request_class == ClassId(request_class) ? w.weight : 0.0;
  return sum;
}

/// So many of a shape serve in a pool.
inline std::vector<FleetMember> serving(int count, std::size_t shape, int pool) {
  std::vector<FleetMember> members;
  for (int i = 0; i < count; ++i)
    members.push_back({InstanceId(100 * pool + i), shape, Phase::Serving, {}, PoolId(pool)});
  return members;
}

inline std::vector<FleetMember> both(std::vector<FleetMember> some, const std::vector<FleetMember>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

struct SitesDriver {
  explicit SitesDriver(SitePoolsSetup setup, SitePoolsOptions options = {}) : policy(std::move(setup), options) {}
  Plan ask(Instant now, std::vector<double> rates, std::vector<NodeView> nodes = {},
           std::vector<FleetMember> members = {}) {
    policy::ScalingView view{now, rates, {}};
    view.nodes = nodes;
    view.members = members;
    return policy.plan(view);
  }
  /// Instances wanted of site n's shapes.
  static int at_site(const Plan& plan, std::size_t n) {
    int count = 0;
    for (const auto& target : plan.instances) count += target.shape / 2 == n ? target.count : 0;
    return count;
  }
  SitePools policy;
};

constexpr Span kTick = Span::s(5);

}  // namespace wattle::managers
