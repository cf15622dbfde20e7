#include "predict/forecast/forecaster.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numbers>

#include "base/random.h"
#include "predict/forecast/backtest.h"
#include "predict/forecast/traffic.h"

namespace wattle::predict {

namespace {
constexpr std::size_t kDay = 24;

/// A daily wave with noise that remembers: y = wave + e, e = 0.8 e + noise.
std::vector<double> wave(std::size_t steps, double noise, std::uint64_t seed) {
  RandomStream random(seed, "test.wave");
  std::vector<double> out;
  double e = 0.0;
  for (std::size_t i = 0; i < steps; ++i) {
    e = 0.8 * e + noise * random.normal();
    out.push_back(300.0 + 80.0 * std::sin(2.0 * std::numbers::pi * static_cast<double>(i) / kDay) + e);
  }
  return out;
}

Panel panel_of(const std::vector<double>& values) { return {{values}, 0}; }

double mae_of(std::unique_ptr<Forecaster> forecaster, const std::vector<double>& values, std::size_t train,
              std::size_t horizon) {
  const Panel all = panel_of(values);
  auto fitted = QuantileForecaster::fit(std::move(forecaster), all.window(0, train), {.horizon = horizon});
  EXPECT_TRUE(fitted.has_value()) << fitted.error().message();
  const auto score = backtest(*fitted, all, {.train = train, .horizon = horizon});
  EXPECT_TRUE(score.has_value());
  return score->mae;
}

/// Says nothing but how far it could see.
class Watcher final : public Forecaster {
 public:
  const char* name() const override { return "watcher"; }
  Result<void> fit(const Panel& past) override {
    learned_until_ = past.next_step();
    return {};
  }
  Rows forecast(const Panel& recent, std::size_t horizon) const override {
    return {std::vector<double>(horizon, static_cast<double>(std::max(learned_until_, recent.next_step())))};
  }
  std::size_t context() const override { return 5; }

 private:
  std::int64_t learned_until_ = 0;
};
}  // namespace

TEST(Naive, TheLastKnownValue) {
  const std::vector<double> values = {1.0, 2.0, kUnknown};
  EXPECT_EQ(make_persistence()->forecast(panel_of(values), 2), (Rows{{2.0, 2.0}}));
  const std::vector<double> nothing = {kUnknown};
  EXPECT_TRUE(std::isnan(make_persistence()->forecast(panel_of(nothing), 1)[0][0]));
}

TEST(Naive, TheSamePlaceOfTheLastSeasonThatHasOne) {
  const std::vector<double> values = {1, 2, 3, 4, 5, kUnknown, 7, 8};
  const auto naive = make_seasonal_naive(3);
  // steps 8..14: places 2, 0, 1, 2, 0, 1, 2; of place 2 step 5 is unknown, step 2 is not
  EXPECT_EQ(naive->forecast(panel_of(values), 7), (Rows{{3, 7, 8, 3, 7, 8, 3}}));
}

TEST(Naive, FilledTakesWhatWasBefore) {
  EXPECT_EQ(filled(std::vector<double>{kUnknown, 1.0, kUnknown, 2.0}), (std::vector<double>{1.0, 1.0, 1.0, 2.0}));
  EXPECT_TRUE(std::isnan(filled(std::vector<double>{kUnknown})[0]));
}

TEST(Template, MedianByPlaceAndTheRecentErrorFading) {
  std::vector<double> values;
  for (int season = 0; season < 5; ++season) {
    for (int place = 0; place < 4; ++place) values.push_back(10.0 * place);
  }
  values[8] = 1000.0;  // an outlier at place 0
  const auto forecaster = make_template({.period = 4, .recent = 2, .decay = 0.5});
  ASSERT_TRUE(forecaster->fit(panel_of(values)).has_value());
  const std::vector<double> recent = {2.0, 12.0};  // places 0 and 1, each 2 above the template
  const Panel now{{recent}, 4};
  EXPECT_EQ(forecaster->forecast(now, 3), (Rows{{21.0, 30.5, 0.25}}));
  EXPECT_FALSE(forecaster->fit(panel_of(values).window(0, 3)).has_value());
  // a negative grid place is a place, too
  EXPECT_EQ(phase_of(-1, 4), 3U);
}

TEST(Kalman, FindsALevelInNoiseAndFollowsAWalk) {
  RandomStream random(7, "test.kalman");
  std::vector<double> noisy;
  std::vector<double> walk;
  double at = 100.0;
  for (int i = 0; i < 600; ++i) {
    noisy.push_back(50.0 + random.normal());
    walk.push_back(at += random.normal());
  }
  const auto forecaster = make_kalman({});
  ASSERT_TRUE(forecaster->fit(panel_of(noisy)).has_value());
  EXPECT_NEAR(forecaster->forecast(panel_of(noisy), 1)[0][0], 50.0, 0.5);  // persistence would be off by about 1
  ASSERT_TRUE(forecaster->fit(panel_of(walk)).has_value());
  EXPECT_NEAR(forecaster->forecast(panel_of(walk), 1)[0][0], walk.back(), 0.5);
  EXPECT_FALSE(forecaster->fit(panel_of(walk).window(0, 5)).has_value());
}

TEST(Kalman, FollowsATrendAndStaysFiniteThroughGaps) {
  std::vector<double> rising;
  for (int i = 0; i < 300; ++i) rising.push_back(i % 7 == 3 ? kUnknown : 2.0 * i);
  const auto forecaster = make_kalman({.damping = 1.0});
  ASSERT_TRUE(forecaster->fit(panel_of(rising)).has_value());
  EXPECT_NEAR(forecaster->forecast(panel_of(rising), 10)[0][9], 2.0 * 309, 1.0);
  const auto counts = make_kalman({.log1p = true});
  const std::vector<double> quiet(50, 0.0);
  ASSERT_TRUE(counts->fit(panel_of(quiet)).has_value());
  EXPECT_NEAR(counts->forecast(panel_of(quiet), 1)[0][0], 0.0, 1e-9);
}

TEST(Ridge, LearnsWhatIsLinear) {
  std::vector<double> sine;
  for (int i = 0; i < 400; ++i) sine.push_back(10.0 + std::sin(0.3 * i) + 0.5 * std::cos(0.11 * i));
  const auto forecaster = make_ridge({.horizon = 6, .lags = 8, .penalty = 1e-12});
  ASSERT_TRUE(forecaster->fit(panel_of(sine).window(0, 350)).has_value());
  const Rows said = forecaster->forecast(panel_of(sine).window(0, 380), 6);
  for (std::size_t h = 0; h < 6; ++h) EXPECT_NEAR(said[0][h], sine[380 + h], 1e-3) << h;
  EXPECT_FALSE(forecaster->fit(panel_of(sine).window(0, 20)).has_value());
}

TEST(Forecasters, EachBeatsTheOneItImprovesOn) {
  const std::vector<double> values = wave(24 * 60, 6.0, 3);
  const std::size_t train = 24 * 50;
  const double persistence = mae_of(make_persistence(), values, train, 12);
  const double seasonal = mae_of(make_seasonal_naive(kDay), values, train, 12);
  const double of_template = mae_of(make_template({.period = kDay, .recent = 1, .decay = 0.8}), values, train, 12);
  const double kalman = mae_of(make_kalman({.period = kDay}), values, train, 12);
  const double ridge = mae_of(make_ridge({.horizon = 12, .lags = 6, .period = kDay, .seasons = 3}), values, train, 12);
  EXPECT_LT(seasonal, persistence);
  EXPECT_LT(of_template, seasonal);
  EXPECT_LT(kalman, seasonal);
  EXPECT_LT(ridge, seasonal);
}

TEST(Margins, CoverWhatTheySay) {
  RandomStream random(11, "test.margins");
  std::vector<double> values;
  for (int i = 0; i < 4000; ++i) values.push_back(random.normal());
  const auto fitted =
      QuantileForecaster::fit(make_kalman({}), panel_of(values).window(0, 2000), {.horizon = 3, .held_back = 0.5});
  ASSERT_TRUE(fitted.has_value()) << fitted.error().message();
  const auto score = backtest(*fitted, panel_of(values), {.train = 2000, .horizon = 3});
  ASSERT_TRUE(score.has_value());
  EXPECT_NEAR(score->coverage_90, 0.9, 0.02);
  EXPECT_NEAR(fitted->margin(0, 0, 0.9), 1.28, 0.15);  // of a standard normal
  EXPECT_LT(score->pinball_90, score->pinball_50);
  const auto few = QuantileForecaster::fit(make_persistence(), panel_of(values).window(0, 20), {.horizon = 3});
  EXPECT_FALSE(few.has_value());
}

TEST(Backtest, ScoresByHand) {
  std::vector<double> values(20, 0.0);
  for (const double v : {2.0, 4.0, 2.0, 4.0}) values.push_back(v);
  const auto fitted = QuantileForecaster::fit(make_persistence(), panel_of(values).window(0, 20),
                                              {.horizon = 1, .held_back = 0.9, .least = 1});
  ASSERT_TRUE(fitted.has_value()) << fitted.error().message();
  const auto score = backtest(*fitted, panel_of(values), {.train = 20, .horizon = 1});
  ASSERT_TRUE(score.has_value());
  EXPECT_EQ(score->points, 4);
  EXPECT_DOUBLE_EQ(score->mae, 2.0);  // 0 -> 2, 2 -> 4, 4 -> 2, 2 -> 4
  EXPECT_DOUBLE_EQ(score->mape, (1.0 + 0.5 + 1.0 + 0.5) / 4.0);
  EXPECT_DOUBLE_EQ(score->pinball_90, (0.9 * 6.0 + 0.1 * 2.0) / 4.0);
  EXPECT_DOUBLE_EQ(score->coverage_90, 0.25);
  EXPECT_DOUBLE_EQ(score->r2, 1.0 - 16.0 / 4.0);
  EXPECT_FALSE(backtest(*fitted, panel_of(values), {.train = 24, .horizon = 1}).has_value());
}

TEST(Backtest, NobodySeesAhead) {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(i);  // the truth at step i is i
  const auto fitted = QuantileForecaster::fit(std::make_unique<Watcher>(), panel_of(values).window(0, 60),
                                              {.horizon = 2, .held_back = 0.5});
  ASSERT_TRUE(fitted.has_value());
  // said is the first step not seen, so the error at lead h is exactly h
  const auto score = backtest(*fitted, panel_of(values), {.train = 60, .horizon = 2});
  ASSERT_TRUE(score.has_value());
  EXPECT_DOUBLE_EQ(score->mae_by_lead[0], 0.0);
  EXPECT_DOUBLE_EQ(score->mae_by_lead[1], 1.0);
}

TEST(Traffic, PeaksOfBins) {
  const Span five = Span::s(5);
  const std::vector<double> bins = {2, 1, 0, 0, 1, 0};
  EXPECT_EQ(peak_rates(bins, five, 2), (std::vector<double>{0.4, 0.0, 0.2}));
  EXPECT_EQ(peak_rates(bins, five, 4), (std::vector<double>{0.4})) << "the rest is no whole group";
  const std::vector<double> gaps = {kUnknown, 3.0, kUnknown, kUnknown};
  const auto peaks = peak_rates(gaps, five, 2);
  EXPECT_EQ(peaks[0], 0.6);
  EXPECT_TRUE(std::isnan(peaks[1]));
}

RC_GTEST_PROP(Forecasters, AreFiniteAndRepeatable, ()) {
  const auto raw = *rc::gen::container<std::vector<int>>(120, rc::gen::inRange(-1, 1000));
  std::vector<double> values;
  for (const int v : raw) values.push_back(v < 0 ? kUnknown : v);
  values[60] = 1.0;  // something is known
  std::vector<std::unique_ptr<Forecaster>> all;
  all.push_back(make_persistence());
  all.push_back(make_seasonal_naive(7));
  all.push_back(make_template({.period = 7}));
  all.push_back(make_kalman({.period = 7, .log1p = true}));
  all.push_back(make_ridge({.horizon = 5, .lags = 4, .period = 7}));
  for (const auto& forecaster : all) {
    RC_ASSERT(forecaster->fit(panel_of(values)).has_value());
    const Rows said = forecaster->forecast(panel_of(values), 5);
    for (const double v : said[0]) RC_ASSERT(std::isfinite(v));
    RC_ASSERT(said == forecaster->forecast(panel_of(values), 5));
  }
}

}  // namespace wattle::predict
