#include "predict/linear_fit.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "predict/least_squares.h"
#include "predict/staircase.h"

namespace wattle::predict {
namespace {

StepSample decode(MegaHertz clock, std::int32_t requests, std::int64_t kv, double ns) {
  StepSample s;
  s.clock = clock;
  s.shape.decode_requests = requests;
  s.shape.decode_kv_tokens = kv;
  s.duration = Span(std::llround(ns));
  return s;
}

StepSample prefill(MegaHertz clock, std::int64_t tokens, double ns) {
  StepSample s;
  s.clock = clock;
  s.shape.prefill_requests = 1;
  s.shape.prefill_tokens = tokens;
  s.duration = Span(std::llround(ns));
  return s;
}

/// The staircase of the reference, 128 and 256 by 15 % each, over a plane; every clock scales it.
double truth(std::int32_t requests, std::int64_t kv, MegaHertz clock) {
  const double tile = requests > 256 ? 1.3 : requests > 128 ? 1.15 : 1.0;
  return (9e6 * tile + 20'000.0 * requests + 60.0 * static_cast<double>(kv)) * 1410.0 / clock.value();
}

/// `noise`: relative standard deviation; `wild`: share of samples that are 2 to 10 times too long (a preempted step).
std::vector<StepSample> profile(double noise, double wild, std::uint64_t seed) {
  RandomStream random(seed, "profile");
  std::vector<StepSample> samples;
  const auto disturb = [&](double ns) {
    ns *= 1.0 + noise * random.normal();
    return random.uniform() < wild ? ns * (2.0 + 8.0 * random.uniform()) : ns;
  };
  std::vector<std::int32_t> batches;
  for (std::int32_t k = 8; k <= 128; k += 8) batches.insert(batches.end(), {k, k + 1});
  for (std::int32_t k = 256; k <= 512; k += 128) batches.insert(batches.end(), {k, k + 1});
  for (const MegaHertz clock : {MegaHertz{1005}, MegaHertz{1200}, MegaHertz{1410}}) {
    for (const std::int32_t batch : batches) {
      for (std::int64_t kv = 20'000; kv <= 400'000; kv += 38'000) {
        samples.push_back(decode(clock, batch, kv, disturb(truth(batch, kv, clock))));
      }
    }
    for (std::int64_t tokens = 128; tokens <= 8'192; tokens += 128) {
      const double ns = (6e6 + 55'000.0 * static_cast<double>(tokens)) * 1410.0 / clock.value();
      samples.push_back(prefill(clock, tokens, disturb(ns)));
    }
  }
  return samples;
}

TEST(LeastSquares, FindsTheExactNonNegativeOptimum) {
  Moments plane;
  for (double x = 0; x < 10; ++x) {
    for (double z = 0; z < 10; ++z) plane.add({{x, z * 1e5, 1.0}, 3.0 * x + 2e-5 * z * 1e5 + 7.0});
  }
  const auto exact = plane.solve_non_negative();
  EXPECT_NEAR(exact.coefficients[0], 3.0, 1e-9);
  EXPECT_NEAR(exact.coefficients[1], 2e-5, 1e-14);
  EXPECT_NEAR(exact.coefficients[2], 7.0, 1e-8);
  EXPECT_NEAR(exact.residual, 0.0, 1e-6);

  Moments falling;  // the unconstrained slope is -2: the best without it is the mean
  for (double x = 0; x < 5; ++x) falling.add({{x, 1.0, 0.0}, 20.0 - 2.0 * x});
  const auto clamped = falling.solve_non_negative();
  EXPECT_EQ(clamped.coefficients[0], 0.0);
  EXPECT_NEAR(clamped.coefficients[1], 16.0, 1e-12);
  EXPECT_NEAR(clamped.residual, 4.0 * 10.0, 1e-9);
}

/// Against brute force: no neighbour on a grid of non-negative coefficients does better.
RC_GTEST_PROP(LeastSquaresProperty, NothingNearbyIsBetter, (std::uint64_t seed)) {
  RandomStream random(seed, "least squares");
  std::vector<Row> rows(5 + random.below(20));
  Moments moments;
  for (Row& row : rows) {
    row = {{random.normal(), random.normal(), 1.0}, 3.0 * random.normal()};
    moments.add(row);
  }
  const auto best = moments.solve_non_negative();
  const auto cost = [&](const Coefficients& c) {
    double sum = 0.0;
    for (const Row& row : rows) sum += std::pow(predict_row(c, row) - row.y, 2);
    return sum;
  };
  RC_ASSERT(std::abs(cost(best.coefficients) - best.residual) < 1e-8 * (1.0 + best.residual));
  for (int i = 0; i < 100; ++i) {
    Coefficients c = best.coefficients;
    for (double& v : c) v = std::max(0.0, v + 0.1 * random.normal());
    RC_ASSERT(cost(c) >= best.residual - 1e-9);
  }
}

TEST(Staircase, FindsTheBordersAndNothingElse) {
  EXPECT_EQ(find_tile_ends(profile(0.0, 0.0, 1)), (std::vector<std::int32_t>{128, 256}));
  EXPECT_EQ(find_tile_ends(profile(0.01, 0.0, 2)), (std::vector<std::int32_t>{128, 256}));
  EXPECT_EQ(find_tile_ends(profile(0.01, 0.1, 3)), (std::vector<std::int32_t>{128, 256})) << "with wild samples";
}

TEST(Staircase, APlaneHasNoBorders) {
  std::vector<StepSample> samples;
  for (std::int32_t batch = 8; batch <= 512; batch += 8) {
    for (std::int64_t kv = 10'000; kv < 100'000; kv += 10'000) {
      samples.push_back(decode(MegaHertz{1410}, batch, kv, 9e6 + 2e4 * batch + 60.0 * static_cast<double>(kv)));
    }
  }
  EXPECT_TRUE(find_tile_ends(samples).empty());
  EXPECT_TRUE(find_tile_ends({}).empty());
}

TEST(LinearFitTest, RecoversWhatMadeTheSamples) {
  const auto fit = fit_linear(profile(0.0, 0.0, 1));
  ASSERT_TRUE(fit) << fit.error().message();
  const auto& c = fit->model.coefficients();
  EXPECT_EQ(c.tile_ends, (std::vector<std::int32_t>{128, 256}));
  ASSERT_EQ(c.clocks.size(), 3U);
  EXPECT_NEAR(c.clocks[2].prefill.ns_per_token, 55'000.0, 1.0);
  EXPECT_NEAR(c.clocks[2].prefill.ns, 6e6, 6e3);
  EXPECT_NEAR(c.clocks[2].decode[1].ns, 9e6 * 1.15, 1e4);
  EXPECT_NEAR(c.clocks[2].decode[1].ns_per_kv_token, 60.0, 0.01);
  EXPECT_LT(fit->decode.mae_ms, 0.001);
  EXPECT_GT(fit->decode.r2, 0.999999);
  EXPECT_EQ(fit->prefill.samples, 3 * 64);
}

TEST(LinearFitTest, StepsOfBothPhasesShowWhatTheyTakeBeyondEither) {
  auto samples = profile(0.0, 0.0, 1);
  const auto alone = fit_linear(samples);
  ASSERT_TRUE(alone);
  LinearCoefficients passes = alone->model.coefficients();
  for (auto& clock : passes.clocks) clock.mixed = MixedLine{};
  const auto nothing_beyond = LinearLatency::make(passes).value();
  for (const MegaHertz clock : {MegaHertz{1005}, MegaHertz{1410}}) {
    for (const std::int32_t batch : {1, 10, 100, 250}) {
      for (const std::int64_t tokens : {64, 1'000, 3'000}) {
        StepSample s = decode(clock, batch, 500 * batch, 0.0);
        s.shape.prefill_requests = 1;
        s.shape.prefill_tokens = tokens;
        const double beyond = 700'000.0 + 12'000.0 * batch;
        s.duration = nothing_beyond.step_time(s.shape, clock) + Span(static_cast<std::int64_t>(beyond));
        samples.push_back(s);
      }
    }
  }
  const auto fit = fit_linear(samples);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->ignored, 0);
  for (const std::size_t i : {0U, 2U}) {
    EXPECT_NEAR(fit->model.coefficients().clocks[i].mixed->ns_per_request, 12'000.0, 10.0);
    EXPECT_NEAR(fit->model.coefficients().clocks[i].mixed->ns, 700'000.0, 1'000.0);
  }
  EXPECT_FALSE(fit->model.coefficients().clocks[1].mixed) << "none measured there";
  LinearFitOptions published;
  published.published_prefill = true;
  EXPECT_EQ(fit_linear(samples, published)->ignored, 24);
}

TEST(LinearFitTest, WildSamplesHardlyMoveIt) {
  const auto fit = fit_linear(profile(0.01, 0.15, 5));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->model.coefficients().tile_ends, (std::vector<std::int32_t>{128, 256}));
  double worst = 0.0;
  for (const std::int32_t batch : {10, 100, 128, 129, 200, 256, 257, 400, 512}) {
    for (const std::int64_t kv : {30'000, 200'000, 390'000}) {
      for (const int mhz : {1005, 1200, 1410}) {
        const auto s = decode(MegaHertz{mhz}, batch, kv, truth(batch, kv, MegaHertz{mhz}));
        const double ratio = fit->model.step_time(s.shape, s.clock).seconds() / s.duration.seconds();
        worst = std::max(worst, std::abs(ratio - 1.0));
      }
    }
  }
  EXPECT_LT(worst, 0.03);  // of a truth blurred by 1 % noise, at the corners of the range
}

TEST(LinearFitTest, IsDeterministicAndIgnoresTheOrderOfBorders) {
  const auto samples = profile(0.02, 0.1, 6);
  LinearFitOptions options;
  options.tile_ends = {256, 128, 256};
  const auto a = fit_linear(samples, options);
  options.tile_ends = {128, 256};
  const auto b = fit_linear(samples, options);
  ASSERT_TRUE(a && b);
  for (const auto& s : samples) EXPECT_EQ(a->model.step_time(s.shape, s.clock), b->model.step_time(s.shape, s.clock));
}

TEST(LinearFitTest, UnmeasuredTilesBorrowAndUnmeasuredPhasesStayUnbelievable) {
  std::vector<StepSample> samples;
  for (std::int64_t kv = 1'000; kv < 10'000; kv += 1'000) {
    samples.push_back(decode(MegaHertz{1410}, 100, kv, 1e6 + 10.0 * static_cast<double>(kv)));
    samples.push_back(decode(MegaHertz{1410}, 300, kv, 2e6 + 10.0 * static_cast<double>(kv)));
  }
  StepSample both = samples[0];
  both.shape.prefill_tokens = 10;
  samples.push_back(both);
  samples.push_back(decode(MegaHertz{1410}, 1, 1, 0.0));
  LinearFitOptions options;
  options.tile_ends = {50, 128, 256};
  const auto fit = fit_linear(samples, options);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->ignored, 2);
  const auto& planes = fit->model.coefficients().clocks[0].decode;
  EXPECT_EQ(planes[0].ns_per_request, planes[1].ns_per_request) << "nothing below: from above";
  EXPECT_EQ(planes[2].ns_per_request, planes[1].ns_per_request) << "equally near: the smaller tile";
  EXPECT_NE(planes[3].ns_per_request, planes[1].ns_per_request);
  StepShape prompt;
  prompt.prefill_tokens = 1'000;
  EXPECT_EQ(fit->model.step_time(prompt, MegaHertz{1410}), Span{});
  EXPECT_EQ(fit->prefill.samples, 0);
}

TEST(LinearFitTest, SaysWhatIsWrongWithAProfile) {
  EXPECT_NE(fit_linear({}).error().message().find("no usable sample"), std::string::npos);
  const std::vector<StepSample> samples{decode(MegaHertz{0}, 1, 1, 1e6)};
  EXPECT_NE(fit_linear(samples).error().message().find("clock 0 MHz"), std::string::npos);
}

}  // namespace
}  // namespace wattle::predict
