#include <benchmark/benchmark.h>

#include "plan/matching.h"
#include "plan/reshard.h"

namespace wattle::plan {
namespace {

/// Any GPU may take any shard, the matching at its largest.
void BM_Matching(benchmark::State& state) {
  const auto gpus = static_cast<int>(state.range(0));
  std::vector<MatchEdge> edges;
  for (int i = 0; i < gpus; ++i) {
    for (int j = 0; j < gpus; ++j) edges.push_back({i, j, (i * 7 + j * 13) % 9});
  }
  for (auto _ : state) benchmark::DoNotOptimize(max_weight_assignment(gpus, gpus, edges));
}
BENCHMARK(BM_Matching)->Arg(8)->Arg(64)->Unit(benchmark::kMicrosecond);

/// Eight nodes of eight GPUs, every instance re-sharded.
void BM_Reshard(benchmark::State& state) {
  ReshardProblem problem;
  problem.nodes = 8;
  problem.weight_bytes = 140'000'000'000;
  for (int gpu = 0; gpu < 64; gpu += 4) problem.present.push_back({{gpu, gpu + 1, gpu + 2, gpu + 3}});
  for (int node = 0; node < 8; ++node) {
    for (const int tp : {2, 2, 4}) problem.next.push_back({tp, node});
  }
  for (auto _ : state) benchmark::DoNotOptimize(plan_reshard(problem));
}
BENCHMARK(BM_Reshard)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace wattle::plan
