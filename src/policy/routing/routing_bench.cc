#include <benchmark/benchmark.h>

#include <vector>

#include "policy/routing/best_batch.h"
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

/// 20 ns a step time, as EcoPred's lines take; three clocks, half of what fits.
class Lines final : public LatencyModel, public PowerModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const double at_max = 10.0 + 0.1 * shape.decode_requests + 1e-5 * static_cast<double>(shape.decode_kv_tokens) +
                          1e-2 * static_cast<double>(shape.prefill_tokens);
    return Span::from_seconds(1.41 * at_max / clock.value());
  }
  [[nodiscard]] Milliwatts step_power(const StepShape& shape, MegaHertz clock) const override {
    return Milliwatts(shape.idle() ? 60'000 : 100'000 + 150 * clock.value());
  }
};

void best_batch(benchmark::State& state, Role role) {
  const Lines lines;
  InstanceSpec spec;
  spec.role = role;
  spec.slo.itl = Span::ms(40);
  spec.kv_capacity_tokens = 400'000;
  spec.beliefs.latency = &lines;
  spec.beliefs.power = &lines;
  std::vector<InstanceView> views(static_cast<std::size_t>(state.range(0)));
  std::vector<const InstanceView*> candidates;
  for (std::size_t i = 0; i < views.size(); ++i) {
    views[i].id = InstanceId{static_cast<std::int32_t>(i)};
    views[i].spec = &spec;
    const std::int32_t requests = i < views.size() / 2 ? 200 : 0;
    views[i].assigned_requests = views[i].step.shape.decode_requests = requests;
    views[i].step.shape.decode_kv_tokens = 500 * requests;
    candidates.push_back(&views[i]);
  }
  BestBatch policy({}, {.clocks = {MegaHertz{1005}, MegaHertz{1200}, MegaHertz{1410}}});
  RandomStream random(1, "bench");
  Request request;
  for (auto _ : state) {
    request.prompt_tokens = static_cast<std::int32_t>(random.below(3'000));  // the longer ones are late
    benchmark::DoNotOptimize(policy.route(request, candidates, Instant{}, random).instance);
  }
}
BENCHMARK_CAPTURE(best_batch, decode, Role::Decode)->Arg(2)->Arg(16)->Arg(256);
BENCHMARK_CAPTURE(best_batch, colocated, Role::Colocated)->Arg(2)->Arg(16)->Arg(256);

}  // namespace
}  // namespace wattle::policy
