#include "calibrate/rate_profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "config/load.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "experiment/request_profile.h"

namespace wattle::calibrate {
namespace {

TEST(RateProfile, LogsWhatTheEngineDoes) {
  auto loaded = config::load_scenario("throttllem-llama2-13b-tp1", {}, config::project()).value();
  const auto model = config::make_step_model(loaded.gpus.front(), loaded.llm, 1, loaded.scenario.engine).value();
  loaded.scenario.engine.max_num_seqs = 8;
  const std::vector<MegaHertz> clocks{MegaHertz{210}, MegaHertz{810}, MegaHertz{1410}};
  const auto samples = collect_rates(model, loaded.scenario.engine, clocks);
  const auto again = collect_rates(model, loaded.scenario.engine, clocks);
  ASSERT_EQ(samples.size(), again.size());
  ASSERT_GT(samples.size(), 100U);
  std::set<std::int32_t> batches;
  std::set<std::int32_t> seen_clocks;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto& s = samples[i];
    EXPECT_EQ(s.duration, again[i].duration);
    batches.insert(s.shape.decode_requests);
    seen_clocks.insert(s.clock.value());
    most = std::max(most, s.shape.decode_kv_tokens);
    const auto line = model.decode(s.shape.decode_requests, s.shape.decode_kv_tokens, s.clock);
    const double truth =
        std::ldexp(static_cast<double>(line.base + line.slope * s.shape.decode_kv_tokens), -engine::kTimeFractionBits);
    EXPECT_NEAR(static_cast<double>(s.duration.ns()), truth, 0.01 * truth) << s.shape.decode_requests;
  }
  EXPECT_EQ(batches.size(), 8U);
  EXPECT_EQ(seen_clocks.size(), 3U);
  const auto capacity = model.kv_blocks() * loaded.scenario.engine.block_size;
  EXPECT_GT(most, capacity * 9 / 10) << "the last iterations fill the cache";
  EXPECT_LE(most, capacity);
  // Those of a cache so large that there would be too many.
  const auto wanted = static_cast<std::int64_t>(samples.size()) / 4;
  const auto few = collect_rates(model, loaded.scenario.engine, clocks, wanted);
  EXPECT_NEAR(static_cast<double>(few.size()), static_cast<double>(wanted), 0.25 * static_cast<double>(wanted));
  EXPECT_GT(few.back().shape.decode_requests, 4) << "of the larger batches, too";
}

TEST(RequestProfile, LongerAnswersAndLowerClocksTakeLonger) {
  const auto loaded = config::load_scenario("throttllem-llama2-13b-tp4", {}, config::project()).value();
  const auto fit = experiment::fit_request_latency(loaded, 0, "").value();
  EXPECT_GT(fit.samples, 1'000U);
  EXPECT_LT(fit.model.weights[1], 0.0) << "s per MHz";
  EXPECT_GT(fit.model.weights[5], 0.0) << "s per output token";
  EXPECT_GT(fit.r2, 0.2);
  EXPECT_LT(fit.r2, 0.99);
}

TEST(RequestProfile, IsTakenAtClocksThatTheGpuHas) {
  const auto loaded = config::load_scenario("h100-llama70b-tp8", {}, config::project()).value();
  EXPECT_TRUE(experiment::fit_request_latency(loaded, 0, "").has_value()) << "eighths of an H100's range are none";
}

}  // namespace
}  // namespace wattle::calibrate
