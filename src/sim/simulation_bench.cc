// Engine iterations per second, step by step and skipping, on a load like the Azure 2023 conversation trace.
#include <benchmark/benchmark.h>

#include "engine/hardware_profile.h"
#include "policy/routing/round_robin.h"
#include "sim/simulation.h"

namespace wattle::sim {
namespace {

void run(benchmark::State& state, bool fast_forward, int replicas, double rate_per_replica, bool round_robin = false) {
  const auto model = engine::StepModel::make(GpuSpec{}, LlmSpec{}, 1, engine::HardwareProfile{}, {});
  std::int64_t iterations = 0;
  std::int64_t requests = 0;
  for (auto _ : state) {
    workload::WorkloadOptions options;
    options.rate_per_s = rate_per_replica * replicas;
    options.requests = 5000;
    auto source = workload::make_source(options, "", "", 1);
    SimulationSetup setup;
    setup.source = source->get();
    setup.fast_forward = fast_forward;
    const auto spec = std::make_shared<const InstanceSpec>();
    for (int i = 0; i < replicas; ++i) {
      InstanceSetup instance;
      instance.id = InstanceId(i);
      instance.spec = spec;
      instance.model = &*model;
      instance.initial_clock = MegaHertz(1410);
      setup.instances.push_back(std::move(instance));
    }
    if (round_robin) setup.policies.route_prefill.policy = std::make_shared<policy::RoundRobin>();
    const auto result = simulate(std::move(setup));
    iterations += result.summary.sim.iterations;
    requests += result.summary.requests.arrived;
  }
  state.counters["iterations/s"] = benchmark::Counter(static_cast<double>(iterations), benchmark::Counter::kIsRate);
  state.counters["requests/s"] = benchmark::Counter(static_cast<double>(requests), benchmark::Counter::kIsRate);
}

void step_by_step_r1(benchmark::State& state) { run(state, false, 1, 5.5); }
void step_by_step_r8(benchmark::State& state) { run(state, false, 8, 0.7); }
void fast_forward_r1(benchmark::State& state) { run(state, true, 1, 5.5); }
void fast_forward_r8(benchmark::State& state) { run(state, true, 8, 0.7); }
/// Cost of a request with so many instances, at the same load on each: requests/s should not fall with their number.
void per_request(benchmark::State& state) { run(state, true, static_cast<int>(state.range(0)), 0.7, true); }
BENCHMARK(step_by_step_r1)->Unit(benchmark::kMillisecond);
BENCHMARK(step_by_step_r8)->Unit(benchmark::kMillisecond);
BENCHMARK(fast_forward_r1)->Unit(benchmark::kMillisecond);
BENCHMARK(fast_forward_r8)->Unit(benchmark::kMillisecond);

BENCHMARK(per_request)->Arg(8)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace wattle::sim
