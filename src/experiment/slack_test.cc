// A throttling recipe of ours loses nothing where there is little to do, or nothing to be late for.
#include <gtest/gtest.h>

#include "config/locate.h"
#include "experiment/simulate.h"

namespace wattle::experiment {
namespace {

double joules(const char* recipe, const std::vector<std::string>& set) {
  std::vector<std::string> all{"workload.trace=", "workload.synthetic=mlperf-openorca"};
  all.insert(all.end(), set.begin(), set.end());
  const auto scenario =
      config::load_scenario("throttllem-llama2-13b-tp2", config::parse_overrides(all).value(), config::project());
  const auto loaded = systems::load_recipe(recipe, {}, config::project());
  return run_simulation(scenario.value(), loaded.value(), {}).value().energy.total.value();
}

TEST(Slack, ThrottlingByLeastEnergyNeverCostsAny) {
  const std::vector<std::string> cases[]{{"workload.rate_per_s=0.05"},
                                         {"workload.rate_per_s=0.4"},
                                         {"workload.rate_per_s=4"},
                                         {"workload.rate_per_s=4", "slo.e2e_ms=3000000", "slo.tbt_ms=100000"}};
  for (const auto& set : cases) {
    EXPECT_LT(joules("throttllem", set), joules("triton", set)) << set.front();
  }
}

// With a batch that is full at any clock. One that still grows makes up for the time: at 4 requests/s the lowest clock
// takes less here than the one of least energy, whose batches are smaller.
TEST(Slack, WhereNothingIsLateAndTheBatchIsFullTheLowestClockCostsMore) {
  const std::vector<std::string> set{"workload.rate_per_s=20", "slo.e2e_ms=3000000", "slo.tbt_ms=100000"};
  EXPECT_LT(joules("throttllem", set), 0.9 * joules("throttllem-published", set));
}

}  // namespace
}  // namespace wattle::experiment
