#include "policy/throttllem/forecast.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace wattle::policy {
namespace {

/// Affine in KV tokens for each batch size, slower at a lower clock; whole nanoseconds throughout at 1000 MHz.
class Affine final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& s, MegaHertz clock) const override {
    ++calls;
    const std::int64_t at_1000 =
        5'000'000 + 20'000 * s.decode_requests + 2 * s.decode_kv_tokens * s.decode_requests + 30'000 * s.prefill_tokens;
    return Span(at_1000 * 1000 / clock.value());
  }
  mutable int calls = 0;
};

class Constant final : public LatencyModel {
 public:
  explicit Constant(Span answer) : answer_(answer) {}
  [[nodiscard]] Span step_time(const StepShape&, MegaHertz) const override { return answer_; }

 private:
  Span answer_;
};

Projected request(std::int64_t id, std::int32_t prompt, std::int32_t predicted, Instant deadline = Instant::never()) {
  return {RequestId{id}, 0, prompt, predicted, 1000, deadline, false};
}

ForecastBasis from_zero() { return {}; }

std::vector<MegaHertz> fifteen_steps() {
  std::vector<MegaHertz> clocks;
  for (std::int32_t mhz = 210; mhz <= 1410; mhz += 15) clocks.emplace_back(mhz);
  return clocks;
}

Forecaster reading(const Scoreboard& board, const ForecastBasis& basis) {
  Forecaster forecaster;
  forecaster.read(board, basis);
  return forecaster;
}

Forecast forecast(const Scoreboard& board, const LatencyModel& model, MegaHertz clock, const ForecastBasis& basis) {
  return reading(board, basis).at(model, clock);
}

TEST(Forecast, DeadlinesAreMetToTheNanosecond) {
  const Affine model;
  // Ten iterations at 10 ms for ten tokens: constant predictor, so the end is known exactly.
  const Constant ten(Span::ms(10));
  Scoreboard board(16);
  board.add(request(1, 100, 10, Instant() + Span::ms(100)));
  EXPECT_EQ(forecast(board, ten, MegaHertz{1000}, from_zero()).obstacle, Obstacle::None);
  board.remove(RequestId{1});
  board.add(request(1, 100, 10, Instant() + Span::ms(100) - Span::ns(1)));
  EXPECT_EQ(forecast(board, ten, MegaHertz{1000}, from_zero()).obstacle, Obstacle::Deadline);
}

TEST(Forecast, OwnAndLostDeadlinesDoNotConstrain) {
  const Constant ten(Span::ms(10));
  Scoreboard board(16);
  board.add(request(1, 100, 10, Instant() + Span::ms(5)));
  auto basis = from_zero();
  basis.own_deadline = RequestId{1};
  EXPECT_EQ(forecast(board, ten, MegaHertz{1000}, basis).obstacle, Obstacle::None);
  EXPECT_TRUE(forecast(board, ten, MegaHertz{1000}, basis).own_deadline_missed);
  EXPECT_EQ(reading(board, from_zero()).give_up_hopeless(board, ten, MegaHertz{1000}), 1);
  EXPECT_EQ(reading(board, from_zero()).give_up_hopeless(board, ten, MegaHertz{1000}), 0);
  EXPECT_EQ(forecast(board, ten, MegaHertz{1000}, from_zero()).obstacle, Obstacle::None);
}

TEST(Forecast, TheMeanIterationIsJudgedNotTheLongest) {
  class ByBatch final : public LatencyModel {
   public:
    [[nodiscard]] Span step_time(const StepShape& s, MegaHertz) const override {
      return s.decode_requests > 1 ? Span::ms(300) : Span::ms(100);
    }
  };
  Scoreboard board(16);
  board.add(request(1, 10, 20));
  board.add(request(2, 10, 10));
  auto basis = from_zero();  // 10 x 300 ms and 10 x 100 ms
  basis.tbt = Span::ms(200);
  EXPECT_EQ(forecast(board, ByBatch(), MegaHertz{1000}, basis).obstacle, Obstacle::None);
  basis.tbt = Span::ms(199);
  EXPECT_EQ(forecast(board, ByBatch(), MegaHertz{1000}, basis).obstacle, Obstacle::Tbt);
}

TEST(Forecast, PromptsDelayDeadlinesButNotTheMeanIteration) {
  const Affine model;
  Scoreboard board(16);
  board.add(request(1, 0, 1, Instant() + Span::ms(10)));  // 5.02 ms alone
  auto basis = from_zero();
  basis.tbt = Span::ms(10);
  EXPECT_EQ(forecast(board, model, MegaHertz{1000}, basis).obstacle, Obstacle::None);
  basis.prefill_tokens = 1000;  // 30 ms more
  EXPECT_EQ(forecast(board, model, MegaHertz{1000}, basis).obstacle, Obstacle::Deadline);
  board.set_lost(0);
  EXPECT_EQ(forecast(board, model, MegaHertz{1000}, basis).obstacle, Obstacle::None);
}

TEST(Forecast, NonsenseIsNotBelieved) {
  Scoreboard board(16);
  board.add(request(1, 10, 5));
  for (const Span nonsense : {Span(), Span(-1), Span::s(601), Span::max()}) {
    EXPECT_EQ(forecast(board, Constant(nonsense), MegaHertz{1000}, from_zero()).obstacle, Obstacle::Disbelieved);
    auto basis = from_zero();
    basis.prefill_tokens = 10;
    EXPECT_EQ(forecast(board, Constant(nonsense), MegaHertz{1000}, basis).obstacle, Obstacle::Disbelieved);
  }
  EXPECT_EQ(forecast(Scoreboard(16), Constant(Span()), MegaHertz{1000}, from_zero()).obstacle, Obstacle::None);
}

/// Sum of step times with one prediction per future iteration, which stretches abbreviate.
std::vector<Span> ends_by_iteration(const Scoreboard& board, const LatencyModel& model, MegaHertz clock) {
  std::vector<Span> cumulative(board.size());
  for (std::size_t i = 0; i < board.size(); ++i) {
    for (std::int64_t j = board.next(); j < board.ends()[i]; ++j) {
      StepShape shape;
      for (std::size_t k = 0; k < board.size(); ++k) {
        if (board.ends()[k] <= j) continue;
        ++shape.decode_requests;
        shape.decode_kv_tokens += j - board.requests()[k].start + board.requests()[k].prompt_tokens;
      }
      cumulative[i] += model.step_time(shape, clock);
    }
  }
  return cumulative;
}

RC_GTEST_PROP(ForecastProperty, EqualsTheSumOverIterations, ()) {
  const Affine model;
  Scoreboard board(16);
  const auto lengths = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 60)));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    board.add(request(static_cast<std::int64_t>(i), *rc::gen::inRange(1, 300), lengths[i]));
  }
  board.advance(*rc::gen::inRange<std::int64_t>(0, 20));
  const auto ends = ends_by_iteration(board, model, MegaHertz{1000});
  const auto chosen = *rc::gen::inRange<std::size_t>(0, board.size());
  // Mean KV is rounded down to a token: at most 2 x batch ns per iteration, and never too long.
  const Span slack = Span(2) * static_cast<std::int64_t>(board.size()) * (board.ends()[chosen] - board.next());
  Projected judged = board.requests()[chosen];
  const auto obstacle_at = [&](Span deadline) {
    board.remove(judged.id);
    judged.deadline = Instant() + deadline;
    board.add(judged);
    return forecast(board, model, MegaHertz{1000}, from_zero()).obstacle;
  };
  RC_ASSERT(obstacle_at(ends[chosen]) == Obstacle::None);
  RC_ASSERT(obstacle_at(ends[chosen] - slack - Span(1)) == Obstacle::Deadline);
}

RC_GTEST_PROP(ForecastProperty, BinarySearchFindsTheLowestClock, ()) {
  const Affine model;
  const auto clocks = fifteen_steps();
  Scoreboard board(16);
  const auto lengths = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 200)));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    board.add(request(static_cast<std::int64_t>(i), *rc::gen::inRange(1, 300), lengths[i],
                      Instant() + Span::ms(*rc::gen::inRange(1, 9000))));
  }
  auto basis = from_zero();
  basis.tbt = Span::ms(*rc::gen::inRange(1, 40));
  basis.prefill_tokens = *rc::gen::inRange(0, 100);
  Obstacle at_top{};
  const MegaHertz found = reading(board, basis).lowest_clock(model, clocks, at_top);
  const auto passes = [&](MegaHertz c) { return forecast(board, model, c, basis).obstacle == Obstacle::None; };
  const auto first = std::ranges::find_if(clocks, passes);
  RC_ASSERT((at_top == Obstacle::None) == (first != clocks.end()));
  RC_ASSERT(found == (first == clocks.end() ? clocks.back() : *first));
}

TEST(Forecast, OnePredictionPerStretch) {
  const Affine model;
  Scoreboard board(16);
  for (int i = 0; i < 50; ++i) board.add(request(i, 100, 10 * (i / 2 + 1)));
  model.calls = 0;
  EXPECT_EQ(forecast(board, model, MegaHertz{1000}, from_zero()).obstacle, Obstacle::None);
  EXPECT_EQ(model.calls, 25);
}

/// Draws a floor, more with the cube of the clock, and more the larger the batch.
class Cubic final : public PowerModel {
 public:
  explicit Cubic(std::int64_t floor_mw = 60'000) : floor_mw_(floor_mw) {}
  [[nodiscard]] Milliwatts step_power(const StepShape& s, MegaHertz clock) const override {
    const double x = clock.value() / 1410.0;
    return Milliwatts(floor_mw_ + static_cast<std::int64_t>((250'000 + 500 * s.decode_requests) * x * x * x));
  }

 private:
  std::int64_t floor_mw_;
};

RC_GTEST_PROP(Forecast, TheLeastEnergyClockPassesAndCostsNoMoreThanAnyOtherThatDoes, ()) {
  const Affine model;
  const Cubic power(*rc::gen::inRange<std::int64_t>(1'000, 500'000));
  const auto clocks = fifteen_steps();
  Scoreboard board(16);
  const auto count = *rc::gen::inRange(1, 40);
  for (int i = 0; i < count; ++i) {
    board.add(request(i, *rc::gen::inRange(0, 2000), *rc::gen::inRange(1, 700),
                      Instant() + Span::ms(*rc::gen::inRange(10'000, 60'000))));
  }
  auto basis = from_zero();
  basis.tbt = Span::ms(*rc::gen::inRange(10, 200));
  basis.prefill_tokens = *rc::gen::inRange(0, 3000);
  auto forecaster = reading(board, basis);
  Obstacle at_top{};
  const MegaHertz lowest = forecaster.lowest_clock(model, clocks, at_top);
  RC_PRE(at_top == Obstacle::None);
  const std::span<const MegaHertz> passing(std::ranges::find(clocks, lowest), clocks.end());
  const MegaHertz chosen = forecaster.least_energy_clock(model, power, passing);
  RC_ASSERT(forecaster.at(model, chosen).obstacle == Obstacle::None);
  const double effort = forecaster.effort(model, power, chosen);
  RC_ASSERT(effort > 0.0);
  for (const MegaHertz other : passing) RC_ASSERT(effort <= forecaster.effort(model, power, other));
}

TEST(Forecast, EffortIsWhatEveryIterationTakesWhereEnergyIsAffine) {
  class Steady final : public LatencyModel {  // per batch size affine in KV tokens, and without products of the two
   public:
    [[nodiscard]] Span step_time(const StepShape& s, MegaHertz) const override {
      return Span(5'000'000 + 20'000 * s.decode_requests + 2 * s.decode_kv_tokens + 30'000 * s.prefill_tokens);
    }
  };
  class Flat final : public PowerModel {
   public:
    [[nodiscard]] Milliwatts step_power(const StepShape&, MegaHertz) const override { return Milliwatts(1000); }
  };
  Scoreboard board(16);
  board.add(request(1, 100, 40));
  board.add(request(2, 300, 40));
  auto basis = from_zero();
  basis.prefill_tokens = 100;
  double each = 0.0;
  const Steady steady;
  for (std::int64_t j = 0; j < 40; ++j) {
    StepShape shape;
    shape.decode_requests = 2;
    shape.decode_kv_tokens = 400 + 2 * j;
    each += 1000.0 * static_cast<double>(steady.step_time(shape, MegaHertz{1000}).ns());
  }
  StepShape prompt;
  prompt.prefill_requests = 1;
  prompt.prefill_tokens = 100;
  prompt.prefill_context_tokens = 5000;
  each += 1000.0 * static_cast<double>(steady.step_time(prompt, MegaHertz{1000}).ns());
  EXPECT_NEAR(reading(board, basis).effort(steady, Flat(), MegaHertz{1000}), each, 1e-6 * each);
}

TEST(Forecast, WithoutBelievablePowerTheLowestClockStands) {
  class Nothing final : public PowerModel {
   public:
    [[nodiscard]] Milliwatts step_power(const StepShape&, MegaHertz) const override { return {}; }
  };
  const Affine model;
  Scoreboard board(16);
  board.add(request(1, 100, 40));
  const auto clocks = fifteen_steps();
  EXPECT_EQ(reading(board, from_zero()).least_energy_clock(model, Nothing(), clocks), clocks.front());
  EXPECT_GT(reading(board, from_zero()).least_energy_clock(model, Cubic(), clocks), clocks.front());
}

}  // namespace
}  // namespace wattle::policy
