#include <benchmark/benchmark.h>

#include <vector>

#include "policy/routing/least_loaded.h"
#include "policy/routing/power_of_two.h"
#include "policy/routing/round_robin.h"
#include "policy/routing/weighted_round_robin.h"

namespace wattle::policy {
namespace {

template <typename Policy>
void route(benchmark::State& state) {
  std::vector<InstanceView> views(static_cast<std::size_t>(state.range(0)));
  std::vector<InstanceSpec> specs(views.size());
  std::vector<const InstanceView*> candidates;
  for (std::size_t i = 0; i < views.size(); ++i) {
    views[i].id = InstanceId{static_cast<std::int32_t>(i)};
    specs[i].weight = 1.0 + static_cast<double>(i % 3);
    views[i].spec = &specs[i];
    candidates.push_back(&views[i]);
  }
  Policy policy;
  RandomStream random(1, "bench");
  const Request request;
  for (auto _ : state) {
    const auto chosen = policy.route(request, candidates, Instant{}, random).instance;
    ++views[static_cast<std::size_t>(chosen.value())].assigned_requests;
  }
}
BENCHMARK(route<RoundRobin>)->Arg(16)->Arg(256);
BENCHMARK(route<LeastLoaded>)->Arg(16)->Arg(256);
BENCHMARK(route<PowerOfTwo>)->Arg(16)->Arg(256);
BENCHMARK(route<WeightedRoundRobin>)->Arg(16)->Arg(256);

}  // namespace
}  // namespace wattle::policy
