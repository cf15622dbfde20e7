#include <benchmark/benchmark.h>

#include "plan/sharding.h"
#include "plan/test_sharding.h"

namespace wattle::plan {
namespace {

/// One pool of 64 GPUs, 3 TP degrees, 7 clocks.
void BM_ShardPool(benchmark::State& state) {
  ShardingProblem problem;
  problem.gpus = 64;
  problem.unused_gpu = Watts(70);
  problem.classes = {testing::formula_class("MM", 1.6, 20.0)};
  ShardingOptions options;
  options.top_clock_only = state.range(0) != 0;
  for (auto _ : state) benchmark::DoNotOptimize(plan_sharding(problem, options));
}
BENCHMARK(BM_ShardPool)->ArgName("top_clock")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

/// Nine classes, 320 GPUs: the whole problem, and the hierarchy with what it loses against it.
void BM_ShardCluster(benchmark::State& state) {
  const ShardingProblem problem = testing::formula_cluster(320, static_cast<double>(state.range(1)));
  ShardingOptions options;
  options.relative_gap = static_cast<double>(state.range(0)) * 1e-4;
  for (auto _ : state) {
    const auto plan = plan_sharding(problem, options);
    state.counters["gap"] = 1.0 - plan->bound / plan->power;
  }
}
BENCHMARK(BM_ShardCluster)->ArgNames({"gap_bp", "load"})->Args({50, 4})->Args({50, 10})->Unit(benchmark::kMillisecond);

void BM_ShardByLevels(benchmark::State& state) {
  const ShardingProblem problem = testing::formula_cluster(320, static_cast<double>(state.range(0)));
  ShardingOptions options;
  options.relative_gap = 5e-3;
  const auto whole = plan_sharding(problem, options);
  for (auto _ : state) {
    const auto plan = plan_by_levels(problem, {.gpus_per_node = 8});
    state.counters["loss"] = plan->power / whole->power - 1.0;
  }
}
BENCHMARK(BM_ShardByLevels)->ArgName("load")->Arg(4)->Arg(10)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace wattle::plan
