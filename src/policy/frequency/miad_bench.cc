#include <benchmark/benchmark.h>

#include "policy/frequency/miad.h"
#include "policy/frequency/primal_dual_clock.h"

namespace wattle::policy {
namespace {

/// A report of a step of 30 ms after the other.
void decide(benchmark::State& state, FrequencyPolicy& policy, const InstanceSpec& spec) {
  InstanceView view;
  view.spec = &spec;
  view.step.shape.decode_requests = 32;
  view.telemetry = Telemetry::Fresh;
  for (auto _ : state) {
    ++view.step.sequence;
    view.step.start = view.step.start + Span::ms(30);
    benchmark::DoNotOptimize(policy.choose(view, view.step.start));
  }
}

/// One report and one decision; every 34th changes the clock.
void miad_step(benchmark::State& state) {
  MiadOptions options;
  options.mean_gap_ms = {88};
  Miad miad(options);
  InstanceSpec spec;
  spec.clocks = supported_clocks(spec.gpu);
  decide(state, miad, spec);
}
BENCHMARK(miad_step);

struct Times final : LatencyModel {
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    return Span::us(std::int64_t{20'000} * 1410 / clock.value() + shape.decode_requests);
  }
};
struct Draws final : PowerModel {
  [[nodiscard]] Milliwatts step_power(const StepShape&, MegaHertz clock) const override {
    return Milliwatts(clock.value() * std::int64_t{200});
  }
};

/// A report of a step of 30 ms: one or two iterations on 16 known clocks.
void primal_dual_step(benchmark::State& state) {
  const Times times;
  const Draws draws;
  InstanceSpec spec;
  spec.clocks = supported_clocks(spec.gpu);
  spec.beliefs.latency = &times;
  spec.beliefs.power = &draws;
  PrimalDualClock policy({}, spec);
  decide(state, policy, spec);
}
BENCHMARK(primal_dual_step);

}  // namespace
}  // namespace wattle::policy
