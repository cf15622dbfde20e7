// Targets: at most 5 us per virtual add at batch 256; admission and throttle at most 50 us at 256, 200 us at 512
// requests. The naive versions evaluate one entry per future iteration, as the paper describes it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "policy/throttllem/forecast.h"

namespace wattle::policy {
namespace {

/// Cost and shape of the linear predictor at a fitted clock: one multiply-add per term.
class Affine final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& s, MegaHertz clock) const override {
    return Span((5'000'000 + 20'000 * s.decode_requests + 40 * s.decode_kv_tokens + 30'000 * s.prefill_tokens) * 1000 /
                clock.value());
  }
};

Projected draw(RandomStream& random, std::int64_t id) {
  const auto prompt = static_cast<std::int32_t>(random.below(2000));
  const auto predicted = static_cast<std::int32_t>(1 + random.below(700));
  return {RequestId{id}, 0, prompt, predicted, 1000, Instant() + Span::s(30), false};
}

/// KV blocks in one iteration; of 16 tokens each, as the scoreboards' here.
std::int64_t blocks_at(const Scoreboard& board, std::int64_t iteration) {
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < board.size(); ++i) {
    const Projected& p = board.requests()[i];
    if (board.ends()[i] > iteration) blocks += (iteration - p.start + p.prompt_tokens + 15) / 16;
  }
  return blocks;
}

Scoreboard filled(std::int64_t requests) {
  RandomStream random(1, "bench");
  Scoreboard board(16);
  board.reserve(static_cast<std::size_t>(requests) + 1);
  for (std::int64_t i = 0; i < requests; ++i) board.add(draw(random, i));
  return board;
}

void virtual_add(benchmark::State& state) {
  Scoreboard board = filled(state.range(0));
  RandomStream random(2, "bench");
  std::vector<Projected> tried;
  for (int i = 0; i < 64; ++i) tried.push_back(draw(random, 100'000 + i));
  std::size_t i = 0;
  for (auto _ : state) {
    board.add_virtually(tried[i++ % 64]);
    benchmark::DoNotOptimize(board.peak_blocks());
    board.roll_back();
  }
}
BENCHMARK(virtual_add)->Arg(64)->Arg(256)->Arg(512);

void virtual_add_naive(benchmark::State& state) {
  Scoreboard board = filled(state.range(0));
  RandomStream random(2, "bench");
  const Projected tried = draw(random, 100'000);
  for (auto _ : state) {
    board.add_virtually(tried);
    std::int64_t peak = 0;
    for (std::int64_t j = 0; j < board.ends().back(); ++j) peak = std::max(peak, blocks_at(board, j));
    benchmark::DoNotOptimize(peak);
    board.roll_back();
  }
}
BENCHMARK(virtual_add_naive)->Arg(256);

std::vector<MegaHertz> clocks() {
  std::vector<MegaHertz> all;
  for (std::int32_t mhz = 210; mhz <= 1410; mhz += 15) all.emplace_back(mhz);
  return all;
}

void admit_and_throttle(benchmark::State& state) {
  Scoreboard board = filled(state.range(0));
  RandomStream random(2, "bench");
  const Affine model;
  const auto all = clocks();
  ForecastBasis basis;
  basis.tbt = Span::ms(200);
  basis.prefill_tokens = 1000;
  const Projected tried = draw(random, 100'000);
  basis.own_deadline = tried.id;
  Forecaster forecaster;
  for (auto _ : state) {
    board.add_virtually(tried);
    benchmark::DoNotOptimize(board.peak_blocks());
    forecaster.read(board, basis);
    benchmark::DoNotOptimize(forecaster.at(model, all.back()));
    Obstacle at_top{};
    benchmark::DoNotOptimize(forecaster.lowest_clock(model, all, at_top));
    board.roll_back();
  }
}
BENCHMARK(admit_and_throttle)->Arg(64)->Arg(256)->Arg(512);

bool passes_naive(const Scoreboard& board, const std::vector<StepShape>& shapes, const LatencyModel& model,
                  MegaHertz clock) {
  std::vector<Span> cumulative(shapes.size());
  Span sum;
  for (std::size_t j = 0; j < shapes.size(); ++j) cumulative[j] = sum += model.step_time(shapes[j], clock);
  for (std::size_t i = 0; i < board.size(); ++i) {
    if (Instant() + cumulative[static_cast<std::size_t>(board.ends()[i]) - 1] > board.requests()[i].deadline)
      return false;
  }
  return sum / static_cast<std::int64_t>(shapes.size()) <= Span::ms(200);
}

void admit_and_throttle_naive(benchmark::State& state) {
  Scoreboard board = filled(state.range(0));
  RandomStream random(2, "bench");
  const Affine model;
  const auto all = clocks();
  const Projected tried = draw(random, 100'000);
  for (auto _ : state) {
    board.add_virtually(tried);
    std::vector<StepShape> shapes(static_cast<std::size_t>(board.ends().back()));
    std::int64_t peak = 0;
    for (std::size_t i = 0; i < board.size(); ++i) {
      for (std::int64_t j = 0; j < board.ends()[i]; ++j) {
        ++shapes[static_cast<std::size_t>(j)].decode_requests;
        shapes[static_cast<std::size_t>(j)].decode_kv_tokens += j + board.requests()[i].prompt_tokens;
      }
    }
    for (const auto& s : shapes) peak = std::max(peak, s.decode_kv_tokens);
    benchmark::DoNotOptimize(peak);
    benchmark::DoNotOptimize(passes_naive(board, shapes, model, all.back()));
    std::size_t low = 0;
    std::size_t high = all.size() - 1;
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      passes_naive(board, shapes, model, all[middle]) ? high = middle : low = middle + 1;
    }
    benchmark::DoNotOptimize(low);
    board.roll_back();
  }
}
BENCHMARK(admit_and_throttle_naive)->Arg(64)->Arg(256)->Arg(512);

}  // namespace
}  // namespace wattle::policy
