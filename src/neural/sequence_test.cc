#include "neural/sequence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/random.h"
#include "predict/forecast/backtest.h"

namespace wattle::neural::sequence_test {

namespace {
using predict::Panel;
using predict::Rows;

/// A daily wave with noise that remembers, as recurrent networks should learn.
std::vector<double> wave(std::size_t steps, std::uint64_t seed) {
  RandomStream random(seed, "test.wave");
  std::vector<double> out;
  double e = 0.0;
  for (std::size_t i = 0; i < steps; ++i) {
    e = 0.8 * e + 6.0 * random.normal();
    out.push_back(300.0 + 80.0 * std::sin(2.0 * std::numbers::pi * static_cast<double>(i) / 24.0) + e);
  }
  return out;
}

Panel panel_of(const Rows& rows) {
  Panel panel;
  for (const auto& row : rows) panel.series.emplace_back(row);
  return panel;
}

SequenceOptions tiny(SequenceOptions::Encoder encoder = SequenceOptions::Encoder::Lstm) {
  return {.encoder = encoder,
          .horizon = 4,
          .window = 12,
          .period = 24,
          .hidden = 8,
          .batch = 16,
          .updates = 400,
          .learning_rate = 1e-2};
}

double mae_of(std::unique_ptr<predict::Forecaster> forecaster, const Panel& all, std::size_t train,
              std::size_t horizon) {
  auto fitted =
      predict::QuantileForecaster::fit(std::move(forecaster), all.window(0, train), {.horizon = horizon, .stride = 4});
  EXPECT_TRUE(fitted.has_value()) << fitted.error().message();
  const auto score = predict::backtest(*fitted, all, {.train = train, .horizon = horizon, .stride = 3});
  EXPECT_TRUE(score.has_value());
  return score->mae;
}
}  // namespace

TEST(Sequence, UntrainedItIsTheBetterNaiveForecast) {
  SequenceOptions options = tiny();
  options.updates = 0;
  const Rows rows = {wave(300, 1)};
  const auto net = make_sequence(options);
  ASSERT_TRUE(net->fit(panel_of(rows)).has_value());
  const Rows said = net->forecast(panel_of(rows), 4);
  for (std::size_t h = 0; h < 4; ++h) EXPECT_NEAR(said[0][h], rows[0][300 + h - 24], 1e-3);
  RandomStream random(9, "test.walk");
  Rows walk(1);
  for (double at = 0.0; walk[0].size() < 300;) walk[0].push_back(at += random.normal());
  ASSERT_TRUE(net->fit(panel_of(walk)).has_value());
  EXPECT_NEAR(net->forecast(panel_of(walk), 4)[0][3], walk[0].back(), 1e-3);
}

TEST(Sequence, TheLstmBeatsSeasonalNaive) {
  const Rows rows = {wave(24 * 50, 3)};
  const double naive = mae_of(predict::make_seasonal_naive(24), panel_of(rows), 24 * 40, 4);
  EXPECT_LT(mae_of(make_sequence(tiny()), panel_of(rows), 24 * 40, 4), 0.85 * naive);
}

TEST(Sequence, TheGraphLooksAtTheOtherSitesAndTheLstmDoesNot) {
  const Rows rows = {wave(300, 1), wave(300, 2)};
  Rows other = rows;
  for (std::size_t i = 250; i < 300; ++i) other[1][i] += i % 2 == 0 ? 60.0 : -60.0;
  for (const auto encoder : {SequenceOptions::Encoder::GruGraph, SequenceOptions::Encoder::Lstm}) {
    SequenceOptions options = tiny(encoder);
    options.updates = 20;
    const auto net = make_sequence(options);
    ASSERT_TRUE(net->fit(panel_of(rows)).has_value());
    const Rows before = net->forecast(panel_of(rows), 4);
    const Rows after = net->forecast(panel_of(other), 4);
    EXPECT_NE(before[1], after[1]);
    EXPECT_EQ(before[0] != after[0], encoder == SequenceOptions::Encoder::GruGraph);
  }
}

TEST(Sequence, EqualPastsGiveEqualForecasts) {
  const Rows rows = {wave(300, 1), wave(300, 2)};
  SequenceOptions options = tiny(SequenceOptions::Encoder::GruGraph);
  options.updates = 20;
  const auto one = make_sequence(options);
  const auto two = make_sequence(options);
  ASSERT_TRUE(one->fit(panel_of(rows)).has_value());
  ASSERT_TRUE(two->fit(panel_of(rows)).has_value());
  EXPECT_EQ(one->forecast(panel_of(rows), 4), two->forecast(panel_of(rows), 4));
  options.seed = 2;
  const auto other = make_sequence(options);
  ASSERT_TRUE(other->fit(panel_of(rows)).has_value());
  EXPECT_NE(one->forecast(panel_of(rows), 4), other->forecast(panel_of(rows), 4));
}

TEST(Sequence, SavedAndLoadedItSaysTheSame) {
  const Rows rows = {wave(300, 1), wave(300, 2)};
  SequenceOptions options = tiny(SequenceOptions::Encoder::GruGraph);
  options.updates = 10;
  const auto net = make_sequence(options);
  EXPECT_FALSE(net->save().has_value());
  ASSERT_TRUE(net->fit(panel_of(rows)).has_value());
  const auto bytes = net->save();
  ASSERT_TRUE(bytes.has_value());
  const auto again = make_sequence(options);
  const auto loaded = again->load(*bytes);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  EXPECT_EQ(again->forecast(panel_of(rows), 4), net->forecast(panel_of(rows), 4));
  EXPECT_FALSE(again->load("nonsense").has_value());
  EXPECT_FALSE(again->load(bytes->substr(0, bytes->size() / 2)).has_value());
  options.hidden = 9;
  EXPECT_FALSE(make_sequence(options)->load(*bytes).has_value());
  options = tiny();
  EXPECT_FALSE(make_sequence(options)->load(*bytes).has_value());  // an LSTM is no GRU
}

TEST(Sequence, GapsAndShortPasts) {
  Rows rows = {wave(300, 1)};
  for (std::size_t i = 100; i < 130; ++i) rows[0][i] = predict::kUnknown;
  SequenceOptions options = tiny();
  options.updates = 20;
  const auto net = make_sequence(options);
  ASSERT_TRUE(net->fit(panel_of(rows)).has_value());
  const Rows said = net->forecast(panel_of(rows), 4);
  for (const double v : said[0]) EXPECT_TRUE(std::isfinite(v));
  EXPECT_TRUE(std::isnan(net->forecast(panel_of(rows).window(0, 20), 4)[0][0]));  // less than two seasons
  EXPECT_FALSE(net->fit(panel_of(rows).window(0, 60)).has_value());
  const Rows unknown = {std::vector<double>(300, predict::kUnknown)};
  EXPECT_FALSE(net->fit(panel_of(unknown)).has_value());
}

}  // namespace wattle::neural::sequence_test
