#include "learn/gbdt_trainer.h"

#include <gtest/gtest.h>
#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "predict/linear_fit.h"
#include "predict/rate_score.h"

namespace wattle::learn {
namespace {

constexpr std::int32_t kClocks[] = {1005, 1095, 1200, 1305, 1410};

double decode_ms(double clock, double requests, double kv) {
  const double tiles = std::ceil(requests / 128.0);
  return 1410.0 / clock * (6.0 + 2.5 * tiles) + kv * 4e-5;
}

/// A staircase in requests, a slope in KV tokens, a line in prompt tokens; 1 % noise.
std::vector<predict::StepSample> samples(std::size_t n) {
  RandomStream random(3, "gbdt samples");
  std::vector<predict::StepSample> made;
  const auto add = [&](StepShape shape, MegaHertz clock, double ms) {
    made.push_back({clock, shape, Span::from_seconds(ms * 1e-3 * (1.0 + 0.01 * random.normal()))});
  };
  for (std::size_t i = 0; i < n; ++i) {
    const MegaHertz clock{kClocks[random.below(5)]};
    StepShape decode;
    decode.decode_requests = 1 + static_cast<std::int32_t>(random.below(600));
    decode.decode_kv_tokens = decode.decode_requests + static_cast<std::int64_t>(random.below(400'000));
    add(decode, clock, decode_ms(clock.value(), decode.decode_requests, static_cast<double>(decode.decode_kv_tokens)));
    StepShape prefill;
    prefill.prefill_requests = 1;
    prefill.prefill_tokens = 64 + static_cast<std::int64_t>(random.below(8'000));
    add(prefill, clock, 1410.0 / clock.value() * (5.0 + 0.03 * static_cast<double>(prefill.prefill_tokens)));
  }
  return made;
}

const GbdtModels& trained() {
  static const GbdtModels models = [] {
    GbdtTraining training;
    training.decode_rounds = 300;
    training.prefill_rounds = 3'000;
    training.prefill_trees = false;
    return train_gbdt(samples(3'000), training).value();
  }();
  return models;
}

TEST(GbdtTrainer, ExplainsWhatItHasNotSeen) {
  EXPECT_LT(trained().decode.mae_ms, 1.0) << "of 8 to 45 ms, with 1 % noise in them";
  EXPECT_LT(trained().prefill.mae_ms, 15.0) << "one slope for all clocks, of 5 to 340 ms";
  EXPECT_GT(trained().decode.samples, 500);
}

TEST(GbdtTrainer, EqualSamplesGiveEqualModels) {
  GbdtTraining training;
  training.decode_rounds = 20;
  training.prefill_rounds = 50;
  const auto once = train_gbdt(samples(200), training).value();
  const auto again = train_gbdt(samples(200), training).value();
  EXPECT_EQ(once.decode_model, again.decode_model);
  EXPECT_EQ(once.prefill_model, again.prefill_model);
}

TEST(GbdtTrainer, TooFewSamplesAreRefused) {
  const auto result = train_gbdt({});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().what.find("at least 10"), std::string::npos);
}

TEST(RateTrainer, OneModelServesEveryEngineSize) {
  RandomStream random(7, "rates");
  std::vector<EngineStep> all;
  for (int i = 0; i < 6'000; ++i) {
    StepShape shape;
    shape.decode_requests = 1 + static_cast<std::int32_t>(random.below(256));
    shape.decode_kv_tokens = shape.decode_requests + static_cast<std::int64_t>(random.below(60'000));
    const std::int32_t size = 1 << random.below(3);
    const MegaHertz clock{210 + 15 * static_cast<std::int32_t>(random.below(81))};
    const double ms = decode_ms(clock.value(), shape.decode_requests, static_cast<double>(shape.decode_kv_tokens)) /
                      size * (1.0 + 0.02 * random.normal());
    all.push_back({size, {clock, shape, Span::from_seconds(ms * 1e-3)}});
  }
  const std::span<const EngineStep> known = std::span(all).first(4'000);
  const auto json = train_rates(known);
  ASSERT_TRUE(json) << json.error().message();
  EXPECT_EQ(*json, train_rates(known).value());
  for (const std::int32_t size : {1, 2, 4}) {
    std::vector<predict::StepSample> unseen;
    for (const auto& sample : std::span(all).subspan(4'000)) {
      if (sample.tensor_parallel == size) unseen.push_back(sample.step);
    }
    const auto model = load_rates(*json, size).value();
    const auto score = predict::score_rate(model, unseen);
    EXPECT_GT(score.r2, 0.97) << size;
    EXPECT_LT(score.mape, 0.06) << size;
    const auto other = load_rates(*json, size == 4 ? 1 : 4).value();
    EXPECT_LT(predict::score_rate(other, unseen).r2, 0.5) << "the engine size matters";

    std::vector<std::int32_t> requests;
    std::vector<std::int64_t> kv;
    for (const auto& s : unseen) requests.push_back(s.shape.decode_requests), kv.push_back(s.shape.decode_kv_tokens);
    std::vector<Span> out(unseen.size());
    for (const MegaHertz clock : {MegaHertz{100}, MegaHertz{705}, MegaHertz{1410}}) {
      model.decode_times(requests, kv, clock, out);
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], model.step_time(unseen[i].shape, clock));
    }
  }
}

TEST(RateTrainer, TooFewSamplesAreRefused) { EXPECT_FALSE(train_rates({})); }

/// Predictions of XGBoost itself on rows of three features (or two).
std::vector<float> by_xgboost(const std::string& model, const std::vector<float>& x, std::size_t width) {
  BoosterHandle booster = nullptr;
  EXPECT_EQ(XGBoosterCreate(nullptr, 0, &booster), 0);
  EXPECT_EQ(XGBoosterLoadModelFromBuffer(booster, model.data(), model.size()), 0) << XGBGetLastError();
  DMatrixHandle rows = nullptr;
  EXPECT_EQ(XGDMatrixCreateFromMat(x.data(), x.size() / width, width, std::numeric_limits<float>::quiet_NaN(), &rows),
            0);
  bst_ulong n = 0;
  const float* out = nullptr;
  EXPECT_EQ(XGBoosterPredict(booster, rows, 0, 0, 0, &n, &out), 0) << XGBGetLastError();
  std::vector<float> result(out, out + n);
  XGDMatrixFree(rows);
  XGBoosterFree(booster);
  return result;
}

TEST(GbdtAgreement, FlatTreesAndTableGiveWhatXgboostGives) {
  const auto trees = predict::GbdtTrees::from_xgboost(trained().decode_model).value();
  RandomStream random(11, "gbdt inputs");
  std::vector<float> x;
  constexpr std::size_t kInputs = 100'000;
  for (std::size_t i = 0; i < kInputs; ++i) {
    // Half of them exactly on a threshold, the others anywhere, also far outside the training data.
    x.push_back(static_cast<float>(900 + random.below(600)));
    x.push_back(static_cast<float>(random.below(1'000)));
    x.push_back(static_cast<float>(random.below(600'000)));
    if (i % 2 == 0) {
      const auto& tree = trees.trees()[random.below(trees.size())];
      const auto& node = tree[random.below(tree.size())];
      if (node.left >= 0) x[3 * i + static_cast<std::size_t>(node.feature)] = node.value;
    }
  }
  const auto expected = by_xgboost(trained().decode_model, x, 3);
  ASSERT_EQ(expected.size(), kInputs);
  double worst = 0.0;
  for (std::size_t i = 0; i < kInputs; ++i) {
    const float ours = trees.predict({x[3 * i], x[3 * i + 1], x[3 * i + 2]});
    worst =
        std::max(worst, std::abs(double{ours} - double{expected[i]}) / std::max(1.0, std::abs(double{expected[i]})));
  }
  EXPECT_LE(worst, 1e-5);

  const auto latency = load_gbdt(trained()).value();
  double apart = 0.0;
  for (std::size_t i = 1; i < kInputs; i += 2) {  // whole numbers only, as a step's shape has
    StepShape shape;
    shape.decode_requests = std::max(1, static_cast<std::int32_t>(x[3 * i + 1]));
    shape.decode_kv_tokens = static_cast<std::int64_t>(x[3 * i + 2]);
    const MegaHertz clock{static_cast<std::int32_t>(x[3 * i])};
    const float raw = trees.predict({x[3 * i], static_cast<float>(shape.decode_requests), x[3 * i + 2]});
    const double ms = static_cast<double>(latency.step_time(shape, clock).ns()) * 1e-6;
    apart += std::abs(ms - double{raw});
  }
  EXPECT_LT(apart / (kInputs / 2.0), 1.0) << "ms of 8 to 60 on average: monotone, but not far off";
}

TEST(GbdtAgreement, AModelThatIsCutOffIsRefused) {
  const std::string& model = trained().decode_model;
  ASSERT_TRUE(predict::GbdtTrees::from_xgboost(model));
  for (std::size_t n = 0; n < model.size(); n += 1 + model.size() / 50) {
    EXPECT_FALSE(predict::GbdtTrees::from_xgboost({model.data(), n})) << n << " of " << model.size();
  }
}

TEST(GbdtAgreement, TheLinearBoosterGivesWhatXgboostGives) {
  const auto ours = predict::LinearBooster::from_xgboost(trained().prefill_model, 2).value();
  RandomStream random(12, "gblinear inputs");
  std::vector<float> x;
  for (int i = 0; i < 100'000; ++i) {
    x.push_back(static_cast<float>(900 + random.below(600)));
    x.push_back(static_cast<float>(random.below(100'000)));
  }
  const auto expected = by_xgboost(trained().prefill_model, x, 2);
  double worst = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double y = double{ours.predict(std::span(x).subspan(2 * i, 2))};
    worst = std::max(worst, std::abs(y - double{expected[i]}) / std::max(1.0, std::abs(y)));
  }
  EXPECT_LE(worst, 1e-5);
}

TEST(GbdtLatency, NeverShorterForMoreKvAndItsPromiseIsExact) {
  const auto model = load_gbdt(trained()).value();
  RandomStream random(5, "gbdt promises");
  int bounded = 0;
  for (int i = 0; i < 20'000; ++i) {
    StepShape shape;
    shape.decode_requests = 1 + static_cast<std::int32_t>(random.below(700));
    shape.decode_kv_tokens = static_cast<std::int64_t>(random.below(500'000));
    if (random.below(8) == 0) shape.prefill_tokens = static_cast<std::int64_t>(random.below(500));
    const MegaHertz clock{900 + static_cast<std::int32_t>(random.below(600))};
    const Span now = model.step_time(shape, clock);
    const Span budget = now + Span::us(static_cast<std::int64_t>(random.below(9'000)) - 500);
    const std::int64_t most = model.kv_tokens_within(shape, clock, budget);
    ASSERT_GE(most, shape.decode_kv_tokens);
    if (now > budget) {
      ASSERT_EQ(most, shape.decode_kv_tokens);
      continue;
    }
    StepShape grown = shape;
    if (most == std::numeric_limits<std::int64_t>::max()) {
      grown.decode_kv_tokens = 1'000'000'000;
      ASSERT_LE(model.step_time(grown, clock), budget);
      continue;
    }
    ++bounded;
    grown.decode_kv_tokens = most;
    ASSERT_LE(model.step_time(grown, clock), budget);
    ++grown.decode_kv_tokens;
    ASSERT_GT(model.step_time(grown, clock), budget) << "one more is one too many";
  }
  EXPECT_GT(bounded, 5'000);
}

TEST(GbdtOnline, ContinuesFromTheOfflineModelAndMendsIt) {
  auto profile = samples(1'500);
  for (auto& s : profile) s.duration = Span::from_seconds(s.duration.seconds() * 1.15);
  GbdtTraining training;
  training.decode_rounds = 150;
  const auto offline = train_gbdt(profile, training).value();
  const auto model = std::make_shared<const predict::GbdtLatency>(load_gbdt(offline).value());
  predict::OnlineLatency online(model, gbdt_refit(offline, model, profile, training), {});
  for (const auto& s : samples(2'200)) {
    online.add(s);
    if (online.refit_due()) online.end_refit(online.refitting()(online.begin_refit()));
  }
  EXPECT_GE(online.counts().adopted, 1);
  EXPECT_EQ(online.counts().failed, 0);
  for (const bool prefill : {false, true}) {
    const auto error = online.newest(prefill);
    EXPECT_LT(error.active_ms, 0.5 * error.offline_ms) << prefill;
  }
  GbdtTraining more;
  more.decode_rounds = 10;
  const auto grown = continue_gbdt(offline, samples(300), more).value();
  const auto trees = [](const std::string& bytes) { return predict::GbdtTrees::from_xgboost(bytes).value().size(); };
  EXPECT_GT(trees(grown.decode_model), trees(offline.decode_model) - 1);
  EXPECT_LE(trees(grown.decode_model), trees(offline.decode_model) + 10);
}

TEST(GbdtResidual, TreesCorrectTheLinesAndTheSumStaysMonotone) {
  const auto profile = samples(3'000);
  predict::LinearFitOptions one_tile;
  one_tile.find_tiles = false;  // lines that miss the staircase
  const auto lines =
      std::make_shared<const predict::LinearLatency>(predict::fit_linear(profile, one_tile).value().model);
  GbdtTraining training;
  training.decode_rounds = 200;
  training.lines = lines;
  const auto model = load_latency(train_gbdt(profile, training).value(), lines).value();
  RandomStream random(9, "residual");
  double error_lines = 0.0;
  double error = 0.0;
  int bounded = 0;
  for (int i = 0; i < 3'000; ++i) {
    const MegaHertz clock{kClocks[random.below(5)]};
    StepShape shape;
    shape.decode_requests = 1 + static_cast<std::int32_t>(random.below(600));
    shape.decode_kv_tokens = static_cast<std::int64_t>(random.below(400'000));
    const double truth = decode_ms(clock.value(), shape.decode_requests, static_cast<double>(shape.decode_kv_tokens));
    const Span now = model->step_time(shape, clock);
    error += std::abs(now.millis() - truth);
    error_lines += std::abs(lines->step_time(shape, clock).millis() - truth);

    const Span budget = now + Span::us(static_cast<std::int64_t>(random.below(9'000)) - 500);
    const std::int64_t most = model->kv_tokens_within(shape, clock, budget);
    ASSERT_GE(most, shape.decode_kv_tokens);
    if (now > budget) {
      ASSERT_EQ(most, shape.decode_kv_tokens);
      continue;
    }
    ++bounded;
    StepShape grown = shape;
    grown.decode_kv_tokens +=
        static_cast<std::int64_t>(random.uniform() * static_cast<double>(most - shape.decode_kv_tokens));
    ASSERT_LE(model->step_time(grown, clock), budget) << "anywhere between";
    grown.decode_kv_tokens = most + 1;
    ASSERT_GT(model->step_time(grown, clock), budget) << "one more is one too many";
  }
  EXPECT_GT(bounded, 2'000);
  EXPECT_LT(error, 0.5 * error_lines);
}

TEST(GbdtResidual, TreesBendTheLinesWhereTheTruthCurves) {
  // Convex in the KV tokens, so that a line is too long in its middle and trees must take time away there.
  const auto truth = [](const StepShape& s) {
    return 10.0 + std::hypot(4.0, 6e-5 * static_cast<double>(s.decode_kv_tokens));
  };
  RandomStream random(4, "curve");
  std::vector<predict::StepSample> profile;
  const auto draw = [&] {
    StepShape shape;
    shape.decode_requests = 1 + static_cast<std::int32_t>(random.below(100));
    shape.decode_kv_tokens = static_cast<std::int64_t>(random.below(200'000));
    return shape;
  };
  for (int i = 0; i < 2'000; ++i) {
    const StepShape shape = draw();
    profile.push_back({MegaHertz{kClocks[0]}, shape, Span::from_seconds(truth(shape) * 1e-3)});
    StepShape prompt;
    prompt.prefill_tokens = 64 + i;
    profile.push_back({MegaHertz{kClocks[0]}, prompt, Span::us(5'000 + 30 * prompt.prefill_tokens)});
  }
  predict::LinearFitOptions one_tile;
  one_tile.find_tiles = false;
  const auto lines =
      std::make_shared<const predict::LinearLatency>(predict::fit_linear(profile, one_tile).value().model);
  GbdtTraining training;
  training.lines = lines;
  const auto model = load_latency(train_gbdt(profile, training).value(), lines).value();
  double error_lines = 0.0;
  double error = 0.0;
  for (int i = 0; i < 1'000; ++i) {
    const StepShape shape = draw();
    error += std::abs(model->step_time(shape, MegaHertz{kClocks[0]}).millis() - truth(shape));
    error_lines += std::abs(lines->step_time(shape, MegaHertz{kClocks[0]}).millis() - truth(shape));
  }
  EXPECT_LT(error, 0.15 * error_lines);
}

TEST(GbdtResidual, NoiseIsNotLearnt) {
  // The truth is linear with 3 % noise.
  predict::LinearCoefficients c;
  c.clocks.push_back({MegaHertz{kClocks[0]}, {30e3, 5e6}, {{50e3, 40.0, 8e6}}});
  const auto lines = std::make_shared<const predict::LinearLatency>(predict::LinearLatency::make(c).value());
  RandomStream random(6, "noise");
  std::vector<predict::StepSample> profile;
  for (int i = 0; i < 1'500; ++i) {
    StepShape decode;
    decode.decode_requests = 1 + static_cast<std::int32_t>(random.below(200));
    decode.decode_kv_tokens = decode.decode_requests + static_cast<std::int64_t>(random.below(200'000));
    StepShape prompt;
    prompt.prefill_tokens = 64 + static_cast<std::int64_t>(random.below(8'000));
    for (const StepShape& shape : {decode, prompt}) {
      const Span truth = lines->step_time(shape, MegaHertz{kClocks[0]});
      profile.push_back(
          {MegaHertz{kClocks[0]}, shape, Span::from_seconds(truth.seconds() * (1.0 + 0.03 * random.normal()))});
    }
  }
  GbdtTraining training;
  training.lines = lines;
  const auto models = train_gbdt(profile, training).value();
  const auto trees = [](const std::string& bytes) { return predict::GbdtTrees::from_xgboost(bytes).value().size(); };
  EXPECT_LE(trees(models.decode_model), 2U);
  EXPECT_LE(trees(models.prefill_model), 2U);
}

}  // namespace
}  // namespace wattle::learn
