#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "learn/length_trainer.h"

namespace wattle::learn {
namespace {

/// Made prompts of fifty words; the first of them says how long the answer is.
std::vector<predict::LengthAnswer> answers(std::size_t count) {
  RandomStream random(1, "bench.answers");
  std::vector<predict::LengthAnswer> out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t ask = random.below(8);
    std::string prompt = "ask" + std::to_string(ask);
    for (int w = 0; w < 50; ++w) prompt += " word" + std::to_string(random.below(500));
    out.push_back({predict::features_of({}, prompt), static_cast<std::int32_t>((1 << ask) + random.below(10))});
  }
  return out;
}

void length_trees_predict(benchmark::State& state) {
  const auto all = answers(1000);
  const auto trees = length_fit()(all).value();
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(trees->tokens(all[++i % all.size()].prompt));
}
BENCHMARK(length_trees_predict);

/// The gateway does this every 500 answers, on a separate thread.
void length_trees_fit(benchmark::State& state) {
  const auto all = answers(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(length_fit()(all));
}
BENCHMARK(length_trees_fit)->Arg(200)->Arg(4000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace wattle::learn
