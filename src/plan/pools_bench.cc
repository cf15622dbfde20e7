#include <benchmark/benchmark.h>

#include <array>

#include "base/random.h"
#include "plan/pools.h"

namespace wattle::plan {
namespace {

/// A planning problem of any size with numbers like the released ones: two kinds of GPU, TP2/4/8 on each and pairs.
PoolsProblem synthetic(std::size_t sites, std::size_t partitions, std::size_t types, std::size_t modes) {
  RandomStream random(1, "pools_bench");
  const auto between = [&](double low, double high) { return low + (high - low) * random.uniform(); };
  PoolsProblem problem;
  problem.kinds = {"A100", "H100"};
  constexpr std::array<std::array<int, 2>, 8> kShapes = {
      {{2, 0}, {4, 0}, {8, 0}, {0, 4}, {0, 2}, {0, 8}, {2, 4}, {4, 2}}};
  for (std::size_t m = 0; m < modes; ++m)
    problem.modes.push_back({"M" + std::to_string(m), {kShapes[m][0], kShapes[m][1]}});
  for (std::size_t n = 0; n < sites; ++n) {
    PoolSite site;
    site.name = std::to_string(n);
    site.gpus = {4 + 2 * static_cast<int>(between(0, 15)), 2 * static_cast<int>(between(0, 9))};
    const double base = between(50, 700);
    for (int t = 0; t < 6; ++t) site.intensity.emplace_back(base * between(0.8, 1.2));
    problem.sites.push_back(site);
  }
  for (std::size_t s = 0; s < partitions; ++s) {
    RequestPartition partition{std::to_string(s), {}};
    for (std::size_t r = 0; r < types; ++r) {
      PoolType type;
      type.name = std::to_string(r);
      const double rate_per_gpu = between(0.3, 3.0);
      const double peak =
          rate_per_gpu * between(0.5, 1.5) * static_cast<double>(sites) * 8.0 / static_cast<double>(types);
      for (int t = 0; t < 6; ++t) type.demand_per_s.push_back(peak * between(0.7, 1.0));
      for (std::size_t m = 0; m < modes; ++m) {
        const double gpus = problem.modes[m].gpus[0] + problem.modes[m].gpus[1];
        WorkerRating rating;
        rating.peak = Watts(gpus * between(270, 370));
        rating.idle = rating.peak * 0.3;
        rating.max_per_s = gpus * rate_per_gpu * between(0.6, 1.4);
        type.ratings.emplace_back(rating);
      }
      partition.types.push_back(type);
    }
    problem.partitions.push_back(partition);
  }
  return problem;
}

void run(benchmark::State& state, const PoolsProblem& problem, const PoolsOptions& options) {
  for (auto _ : state) {
    const auto plan = plan_pools(problem, options);
    if (!plan || !plan->found()) {
      state.SkipWithError("no plan");
      return;
    }
    state.counters["gap"] = (plan->objective - plan->bound) / plan->objective;
  }
}

void BM_Published(benchmark::State& state) {
  PoolsOptions options;
  options.formulation = PoolsFormulation::Published;
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(state.range(i)); };
  options.relative_gap = static_cast<double>(state.range(4)) * 1e-6;
  run(state, synthetic(size(0), size(1), size(2), size(3)), options);
}
void BM_Wattle(benchmark::State& state) {
  PoolsOptions options;
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(state.range(i)); };
  options.relative_gap = static_cast<double>(state.range(4)) * 1e-6;
  run(state, synthetic(size(0), size(1), size(2), size(3)), options);
}
BENCHMARK(BM_Published)
    ->Args({3, 2, 4, 4, 0})
    ->Args({20, 5, 9, 8, 5000})
    ->Args({100, 5, 9, 8, 5000})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Wattle)
    ->Args({3, 2, 4, 4, 1})
    ->Args({20, 5, 9, 8, 5000})
    ->Args({100, 5, 9, 8, 5000})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace wattle::plan
