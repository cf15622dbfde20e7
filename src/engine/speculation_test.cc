// Speculative decoding against its closed form, and what it must not change.
#include "engine/speculation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/replica_driver_test.h"

namespace wattle::engine::speculation_test {
namespace {

StepModel model_with(const EngineOptions& options, double memory_bytes = 80e9) {
  GpuSpec gpu;
  gpu.memory_bytes = memory_bytes;
  auto made = StepModel::make(gpu, LlmSpec{}, 1, HardwareProfile{}, options);
  if (!made) throw std::runtime_error(made.error().message());
  return std::move(*made);
}

EngineOptions drafting(std::int32_t tokens, double rate) {
  EngineOptions options;
  options.speculative_tokens = tokens;
  options.acceptance_rate = rate;
  return options;
}

/// All arrive at once; every token and gap is counted.
class Watched final : public Driver {
 public:
  Watched(const StepModel& model, const EngineOptions& options, const std::vector<Arrival>& all, bool per_token = true)
      : Driver(model, with(options, per_token)) {
    run(all);
    for (const Event& e : events) {
      if (e.kind == EventKind::FirstToken) ++tokens[e.tag];
      if (e.kind == EventKind::Finished) finished.insert_or_assign(e.tag, e);
    }
  }

  std::map<Tag, std::int64_t> tokens;
  std::map<Tag, Event> finished;
  std::int64_t gaps_seen = 0;
  std::int64_t gaps_of_nothing = 0;
  double seconds_between = 0.0;

 private:
  static ReplicaOptions with(const EngineOptions& engine, bool per_token) {
    ReplicaOptions options;
    options.engine = engine;
    options.initial_clock = MegaHertz(1410);
    options.per_token = per_token;
    return options;
  }
  void gaps(const TokenGaps& of) override {
    gaps_seen += of.steps * of.requests;
    if (of.first == 0 && of.increment == 0) gaps_of_nothing += of.steps * of.requests;
    for (std::int64_t i = 0; i < of.steps; ++i) {
      seconds_between += 1e-9 * std::ldexp(static_cast<double>(of.first + i * of.increment), -kTimeFractionBits) *
                         static_cast<double>(of.requests);
    }
  }
  void token(Tag tag, Instant) override { ++tokens[tag]; }
};

TEST(Speculation, AStepGivesAsManyTokensAsItsFormulaSays) {
  for (const double rate : {0.0, 0.3, 0.7, 0.95}) {
    for (const std::int32_t k : {1, 3, 5}) {
      const EngineOptions options = drafting(k, rate);
      const double expected = (1.0 - std::pow(rate, k + 1)) / (1.0 - rate);
      EXPECT_NEAR(tokens_per_step(options), expected, 1e-12);
      double accepted = 0.0;
      constexpr int kDraws = 200'000;
      for (int i = 0; i < kDraws; ++i) accepted += accepted_drafts(options, RequestId(i % 500), i / 500);
      EXPECT_NEAR(1.0 + accepted / kDraws, expected, 0.02 * expected) << rate << ", " << k;
      // As the engine runs: one request, so that every step is its own.
      const StepModel model = model_with(options);
      const Watched run(model, options, together(1, 100, 3000));
      const double steps = static_cast<double>(run.steps.size()) - 1.0;
      EXPECT_NEAR(2999.0 / steps, expected, 0.06 * expected) << rate << ", " << k;
    }
  }
}

TEST(Speculation, ReportsSayOnceWhatEachStepGave) {
  for (const std::int32_t drafts : {0, 3}) {
    const EngineOptions options = drafting(drafts, 0.7 * (drafts > 0));
    const StepModel model = model_with(options);
    const Watched run(model, options, together(20, 100, 300));
    std::int64_t said = 0;
    std::int64_t requests = 0;
    for (const auto& step : run.steps) {
      said += step.yield.tokens;
      requests += step.yield.requests;
    }
    // The prompt's step gives the first token of each, and the last step's report is that of going idle.
    const std::int64_t decoded = 20 * 299;
    if (drafts == 0) {
      EXPECT_EQ(requests, 0) << "one each, as everybody knows";
    } else {
      EXPECT_LE(said, decoded);
      EXPECT_GE(said, decoded - 20 * (1 + drafts));
      EXPECT_NEAR(static_cast<double>(said) / static_cast<double>(requests), tokens_per_step(options), 0.1);
    }
  }
}

TEST(Speculation, WithoutAcceptanceStepsAreLongerAndAsMany) {
  const EngineOptions plain;
  const EngineOptions options = drafting(3, 0.0);
  const auto all = together(40, 200, 100);
  const StepModel slow = model_with(plain);
  const StepModel verifying = model_with(options);
  const Watched alone(slow, plain, all);
  const Watched drafted(verifying, options, all);
  EXPECT_EQ(alone.steps.size(), drafted.steps.size());
  EXPECT_EQ(drafted.gaps_of_nothing, 0);
  EXPECT_GT(drafted.seconds_between, alone.seconds_between) << "four rows a request";
}

TEST(Speculation, ItPaysForFewRequestsMoreThanForMany) {
  const EngineOptions plain;
  const EngineOptions options = drafting(3, 0.7);
  const StepModel slow = model_with(plain);
  const StepModel fast = model_with(options);
  const auto gain = [&](std::int32_t requests) {
    const auto all = together(requests, 64, 200);
    return Watched(slow, plain, all).seconds_between / Watched(fast, options, all).seconds_between;
  };
  const double lone = gain(1);
  EXPECT_GT(lone, 2.0) << "a lone decode reads the weights, whatever it verifies";
  EXPECT_LT(lone, tokens_per_step(options));
  EXPECT_LT(gain(400), 0.85 * lone) << "a full batch computes";
}

TEST(Speculation, DraftingTakesItsShareOfAStep) {
  EngineOptions options = drafting(4, 0.5);
  const EngineOptions plain;
  const StepModel one = model_with(plain);
  const StepModel free_drafts = model_with(options);
  options.draft_share = 0.1;
  const StepModel drafts = model_with(options);
  const auto seconds = [](const StepModel& model) {
    const DecodeLine& line = model.decode(8, 8000, MegaHertz(1410));
    return std::ldexp(static_cast<double>(line.base + line.slope * 8000), -kTimeFractionBits) * 1e-9;
  };
  const double added = seconds(drafts) - seconds(free_drafts);
  EXPECT_NEAR(added, 4 * 0.1 * seconds(one), 0.15 * added) << "but for sampling and the host";
}

TEST(Speculation, NothingIsMeasuredOfIt) {
  const EngineOptions options = drafting(2, 0.5);
  const StepModel model = model_with(options);
  EXPECT_TRUE(model.extrapolated().empty());
  (void)model.decode(4, 400, MegaHertz(1410));
  EXPECT_NE(model.extrapolated().back().find("speculative decoding"), std::string::npos);
}

TEST(Speculation, BadOptionsAreRefused) {
  for (const EngineOptions& options : {drafting(-1, 0.5), drafting(2, 1.0), drafting(2, -0.1)}) {
    EXPECT_FALSE(StepModel::make(GpuSpec{}, LlmSpec{}, 1, HardwareProfile{}, options).has_value());
  }
}

RC_GTEST_PROP(Speculation, every_request_gets_its_tokens_whatever_is_drafted, ()) {
  EngineOptions options = drafting(*rc::gen::inRange(1, 8), 0.1 * *rc::gen::inRange(0, 10));
  options.reserve_output = *rc::gen::arbitrary<bool>();
  options.chunked_prefill = *rc::gen::arbitrary<bool>();
  options.block_size = *rc::gen::inRange(1, 40);
  const StepModel model = model_with(options, *rc::gen::element(20.4e9, 21.5e9, 80e9));
  std::vector<Arrival> all;
  const int requests = *rc::gen::inRange(1, 40);
  for (int i = 0; i < requests; ++i) {
    const std::int32_t prompt = *rc::gen::inRange(1, 1500);
    Arrival one = request(static_cast<Tag>(i), Instant(), prompt, *rc::gen::inRange(1, 400));
    Job& job = one.job;
    RC_PRE(model.kv_blocks() >= (job.prompt_tokens + job.output_tokens) / options.block_size + 2);
    if (*rc::gen::arbitrary<bool>()) job.content = chained(16, std::vector<std::uint64_t>(20, 5));
    all.push_back(std::move(one));
  }
  Watched run(model, options, all);  // with all invariants checked at every step
  std::int64_t gaps = 0;
  for (const auto& [at, job] : all) {
    RC_ASSERT(run.tokens[job.tag] == job.output_tokens);
    const Event& e = run.finished.at(job.tag);
    RC_ASSERT(e.output_tokens == job.output_tokens);
    RC_ASSERT(e.gaps_within_itl == job.output_tokens - 1);
    gaps += job.output_tokens - 1;
  }
  RC_ASSERT(run.gaps_seen == gaps);
  RC_ASSERT(run.replica().blocks_free() == run.replica().blocks_total());
  if (options.reserve_output) RC_ASSERT(run.replica().preemptions() == 0);
}

}  // namespace
}  // namespace wattle::engine::speculation_test
