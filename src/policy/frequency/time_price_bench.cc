#include <benchmark/benchmark.h>

#include <vector>

#include "policy/frequency/time_price.h"

namespace wattle::policy {
namespace {

class Steps final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    return Span(10'000'000 + 50'000 * shape.decode_requests + 1'000 * (1410 - clock.value()));
  }
};

class Draw final : public PowerModel {
 public:
  [[nodiscard]] Milliwatts step_power(const StepShape& shape, MegaHertz clock) const override {
    return Milliwatts(100'000 + 150LL * clock.value() + 10LL * shape.decode_requests);
  }
};

/// One decision among so many clocks; the models' own time is nearly zero.
void time_price(benchmark::State& state) {
  std::vector<MegaHertz> clocks;
  for (std::int32_t i = 0; i < state.range(0); ++i) {
    clocks.emplace_back(1005 + static_cast<std::int32_t>(405 * i / (state.range(0) - 1)));
  }
  const Steps steps;
  const Draw draw;
  InstanceSpec spec;
  spec.beliefs.latency = &steps;
  spec.beliefs.power = &draw;
  spec.slo.itl = Span::ms(60);
  TimePrice price(clocks, 0.005, spec);
  StepShape shape;
  Instant now;
  for (auto _ : state) {
    shape.decode_requests = 1 + (shape.decode_requests + 7) % 128;
    benchmark::DoNotOptimize(price.choose({.shape = shape}, now));
    now += Span::ms(15);
  }
}
BENCHMARK(time_price)->Arg(2)->Arg(5)->Arg(8)->Arg(28);

}  // namespace
}  // namespace wattle::policy
