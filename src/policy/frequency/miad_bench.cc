#include <benchmark/benchmark.h>

#include "policy/frequency/miad.h"

namespace wattle::policy {
namespace {

/// One report heard and one answer given, with a decision every 34th time.
void miad_step(benchmark::State& state) {
  MiadOptions options;
  options.mean_gap_ms = {88};
  Miad miad(options);
  InstanceSpec spec;
  spec.clocks = supported_clocks(spec.gpu);
  InstanceView view;
  view.spec = &spec;
  view.step.shape.decode_requests = 32;
  view.telemetry = Telemetry::Fresh;
  for (auto _ : state) {
    ++view.step.sequence;
    view.step.start = view.step.start + Span::ms(30);
    benchmark::DoNotOptimize(miad.choose(view, view.step.start));
  }
}
BENCHMARK(miad_step);

}  // namespace
}  // namespace wattle::policy
