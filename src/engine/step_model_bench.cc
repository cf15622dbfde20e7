#include "engine/step_model.h"

#include <benchmark/benchmark.h>

#include "engine/hardware_profile.h"

namespace wattle::engine {
namespace {

StepModel a100_8b() { return std::move(*StepModel::make(GpuSpec{}, LlmSpec{}, 1, HardwareProfile{}, EngineOptions{})); }

void decode_line(benchmark::State& state) {
  const StepModel model = a100_8b();
  std::int32_t batch = 0;
  for (auto _ : state) {
    batch = batch % 256 + 1;
    benchmark::DoNotOptimize(model.decode(batch, batch * 700, MegaHertz(1410)));
  }
}
BENCHMARK(decode_line);

void mixed_step(benchmark::State& state) {
  const StepModel model = a100_8b();
  StepShape shape{16, 8000, 1, 0, 0};
  for (auto _ : state) {
    shape.prefill_tokens = shape.prefill_tokens % 4096 + 37;
    shape.prefill_context_tokens = shape.prefill_tokens * shape.prefill_tokens / 2;
    benchmark::DoNotOptimize(model.mixed(shape, MegaHertz(static_cast<std::int32_t>(state.range(0)))));
  }
}
BENCHMARK(mixed_step)->Arg(1005)->Arg(1410);

void table_for_one_clock(benchmark::State& state) {
  for (auto _ : state) {
    const StepModel model = a100_8b();
    benchmark::DoNotOptimize(model.mixed(StepShape{1, 100, 0, 0, 0}, MegaHertz(1005)));
  }
}
BENCHMARK(table_for_one_clock)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace wattle::engine
