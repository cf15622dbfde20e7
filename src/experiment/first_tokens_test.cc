// Prefill and decode apart, where first tokens wait for the decode engine's loop.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "config/locate.h"
#include "experiment/simulate.h"

namespace wattle::experiment {
namespace {

journal::RunSummary run(const std::string& recipe, const std::vector<std::string>& set) {
  const auto both = systems::split_overrides(config::parse_overrides(set).value()).value();
  const auto scenario = config::load_scenario("voltanallm-2p2d", both.scenario, config::project());
  EXPECT_TRUE(scenario) << scenario.error().message();
  const auto summary =
      run_simulation(*scenario, systems::load_recipe(recipe, both.recipe, config::project()).value(), {});
  EXPECT_TRUE(summary) << summary.error().message();
  return *summary;
}

TEST(FirstTokens, OursKeepsThemAtEveryRateAndSavesWhereTheyAllow) {
  for (int rate = 40; rate <= 85; rate += 15) {
    const std::vector<std::string> at{"workload.rate_per_s=" + std::to_string(rate), "workload.requests=6000"};
    const auto fastest = run("static-max", at);
    const auto ours = run("wattle", at);
    EXPECT_GE(ours.slo.ttft, fastest.slo.ttft - 0.01) << rate;
    EXPECT_GE(ours.slo.itl, fastest.slo.itl - 0.01) << rate;
    const double share =
        static_cast<double>(ours.energy.total.value()) / static_cast<double>(fastest.energy.total.value());
    EXPECT_LT(share, rate == 40 ? 0.7 : 0.99) << rate;
  }
}

}  // namespace
}  // namespace wattle::experiment
