// A model that was profiled wrongly learns what is served; what makes it worse goes again.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "predict/online/linear_refit.h"
#include "predict/shapes_test.h"

namespace wattle::predict {
namespace {

constexpr MegaHertz kClocks[] = {MegaHertz{1005}, MegaHertz{1410}};

StepShape prefilling(std::int64_t tokens) { return prompts(tokens, tokens * tokens / 2); }

Span truth(const StepShape& s, MegaHertz clock) {
  const double slow = 1410.0 / clock.value();
  const double ms = pure_decode(s) ? slow * (8.0 + 6.0 * static_cast<double>((s.decode_requests - 1) / 128)) +
                                         0.02 * s.decode_requests + 5e-5 * static_cast<double>(s.decode_kv_tokens)
                                   : slow * (5.0 + 0.04 * static_cast<double>(s.prefill_tokens) +
                                             2e-7 * static_cast<double>(s.prefill_context_tokens));
  return Span::from_seconds(ms * 1e-3);
}

std::vector<StepSample> profile(double scale) {
  std::vector<StepSample> samples;
  const auto add = [&](const StepShape& s, MegaHertz clock) {
    samples.push_back({clock, s, Span::from_seconds(truth(s, clock).seconds() * scale)});
  };
  for (const MegaHertz clock : kClocks) {
    for (std::int32_t requests = 8; requests <= 256; requests += 8) {
      for (const std::int64_t kv : {2'000, 50'000, 100'000, 200'000}) {
        add(decodes(requests, kv), clock);
        add(decodes(requests - 7, kv), clock);  // 129, the first of its step, but not 257, alone on its own
      }
    }
    for (std::int64_t tokens = 32; tokens <= 8192; tokens += 64) add(prefilling(tokens), clock);
  }
  return samples;
}

/// What is served: small batches, a few prompts; 1 % noise. `factor` lengthens every duration.
class Served {
 public:
  StepSample next(double factor = 1.0) {
    const MegaHertz clock = kClocks[random_.below(2)];
    const StepShape shape = random_.below(4) == 0 ? prefilling(20 + static_cast<std::int64_t>(random_.below(900)))
                                                  : decodes(1 + static_cast<std::int32_t>(random_.below(60)),
                                                            500 + static_cast<std::int64_t>(random_.below(30'000)));
    const double noise = 1.0 + 0.01 * random_.normal();
    return {clock, shape, Span::from_seconds(truth(shape, clock).seconds() * factor * noise)};
  }

 private:
  RandomStream random_{7, "served"};
};

OnlineLatency online(double scale, OnlineOptions options = {}) {
  const auto samples = profile(scale);
  const auto offline = std::make_shared<const LinearLatency>(fit_linear(samples)->model);
  return {offline, linear_refit(samples, offline), options};
}

/// As a driver does, without delay.
void serve(OnlineLatency& model, Served& served, int steps, double factor = 1.0) {
  for (int i = 0; i < steps; ++i) {
    model.add(served.next(factor));
    if (model.refit_due()) model.end_refit(model.refitting()(model.begin_refit()));
  }
}

TEST(OnlineLatency, MendsAnEngineProfiledTooSlow) {
  OnlineLatency model = online(1.15);
  Served served;
  serve(model, served, 2'500);
  for (const bool prefill : {false, true}) {
    const OnlineError error = model.newest(prefill);
    ASSERT_GT(error.samples, 20);
    EXPECT_GT(error.offline_ms, 1.0) << prefill;
    EXPECT_LT(error.active_ms, 0.3 * error.offline_ms) << prefill;
    EXPECT_LT(std::abs(error.drift), 0.01) << prefill;
  }
  EXPECT_EQ(model.counts().refits, 2);
  EXPECT_GE(model.counts().adopted, 1);
  EXPECT_EQ(model.counts().rolled_back, 0);
  // Far from anything served, the level of what is served is the better guess.
  const StepShape far = decodes(250, 180'000);
  const double off = std::abs(model.step_time(far, kClocks[0]).millis() - truth(far, kClocks[0]).millis());
  EXPECT_LT(off, 0.05 * truth(far, kClocks[0]).millis());
}

/// One model is exact, the other too slow by this share.
class Off final : public LatencyModel {
 public:
  explicit Off(double share) : share_(share) {}
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    return Span::from_seconds(truth(shape, clock).seconds() * (1.0 + share_));
  }

 private:
  double share_;
};

/// Adopted while steps took so much longer, which it predicted and its predecessor did not.
std::int64_t rolled_back_after(double share) {
  const auto refit = [share](std::span<const StepSample>) -> Result<std::shared_ptr<const LatencyModel>> {
    return std::make_shared<const Off>(share);
  };
  OnlineLatency model(std::make_shared<const Off>(0.0), refit, {});
  Served served;
  serve(model, served, 1'000, 1.0 + share);
  EXPECT_EQ(model.counts().adopted, 1);
  serve(model, served, 400);
  return model.counts().rolled_back;
}

TEST(OnlineLatency, IsNotRolledBackOverNothing) {
  EXPECT_EQ(rolled_back_after(0.001), 0) << "a thousandth of a step: however many times the predecessor's error";
  EXPECT_EQ(rolled_back_after(0.05), 1);
}

TEST(OnlineLatency, APoisonedWindowIsRolledBack) {
  OnlineOptions options;
  options.ring = 1'000;  // all of it poisoned
  OnlineLatency model = online(1.0, options);
  Served served;
  serve(model, served, 3'000);
  const StepShape probe = decodes(40, 20'000);
  const double before = model.step_time(probe, kClocks[0]).millis();
  const auto adopted = model.counts().adopted;
  ASSERT_EQ(model.counts().rolled_back, 0);
  serve(model, served, 1'000, 3.0);  // something else on the GPUs
  ASSERT_EQ(model.counts().adopted, adopted + 1) << "the newest window speaks for it";
  ASSERT_GT(model.step_time(probe, kClocks[0]).millis(), 1.5 * before);
  serve(model, served, 200);
  EXPECT_EQ(model.counts().rolled_back, 1);
  EXPECT_DOUBLE_EQ(model.step_time(probe, kClocks[0]).millis(), before);
  serve(model, served, 3'000);
  EXPECT_NEAR(model.step_time(probe, kClocks[0]).millis(), truth(probe, kClocks[0]).millis(), 0.3)
      << "what the poison taught is forgotten";
}

class Constant final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape&, MegaHertz) const override { return Span::s(1); }
};

TEST(OnlineLatency, AWorseModelIsNeverUsedAndNoModelIsNoHarm) {
  OnlineLatency model = online(1.0);
  Served served;
  serve(model, served, 900);
  const StepShape probe = decodes(40, 20'000);
  const Span before = model.step_time(probe, kClocks[0]);
  EXPECT_FALSE(model.end_refit(std::make_shared<const Constant>()).changed);
  EXPECT_EQ(model.counts().rejected, 1);
  EXPECT_FALSE(model.end_refit(bad_input("samples", "none")).changed);
  EXPECT_EQ(model.counts().failed, 1);
  EXPECT_EQ(model.step_time(probe, kClocks[0]), before);
}

TEST(OnlineLatency, IgnoresWhatNoEngineMeasures) {
  OnlineLatency model = online(1.0);
  StepSample sample{kClocks[0], decodes(1, 10), Span::ms(10)};
  for (const Span duration : {Span(), Span::ms(-5), Span::s(601), Span::max()}) {
    sample.duration = duration;
    model.add(sample);
  }
  sample.duration = Span::ms(10);
  sample.clock = MegaHertz{0};
  model.add(sample);
  sample.clock = kClocks[0];
  sample.shape.prefill_tokens = 5;
  model.add(sample);
  sample.shape = StepShape{};
  model.add(sample);
  EXPECT_EQ(model.counts().ignored, 7);
  EXPECT_EQ(model.counts().samples, 0);
}

TEST(OnlineLatency, WhatJudgesIsNotLearntFrom) {
  OnlineOptions options;
  options.refit_every = 400;
  OnlineLatency model = online(1.0, options);
  Served served;
  for (int i = 0; i < 400; ++i) model.add(served.next());
  ASSERT_TRUE(model.refit_due());
  EXPECT_EQ(model.begin_refit().size(), 300U);
  EXPECT_FALSE(model.refit_due()) << "one at a time";
  for (int i = 0; i < 500; ++i) model.add(served.next());
  EXPECT_FALSE(model.refit_due());
  model.end_refit(bad_input("samples", "none"));
  EXPECT_TRUE(model.refit_due());
}

}  // namespace
}  // namespace wattle::predict
