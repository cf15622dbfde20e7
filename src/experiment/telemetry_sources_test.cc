// Recipes behave the same without step reports as with them.
#include "experiment/telemetry_sources.h"

#include <gtest/gtest.h>

#include "config/locate.h"

namespace wattle::experiment {
namespace {

struct Case {
  const char* scenario;
  const char* recipe;
  double energy = 1.07;  ///< with streams, of that with step reports, at most
};

/// By step reports, streams, and gauges each 250 ms.
struct Known {
  journal::RunSummary steps, streams, gauges;
};

Known run(const Case& of) {
  const auto loaded = config::load_scenario(of.scenario, {{"workload.duration_s", "400"}}, config::project());
  const auto recipe = systems::load_recipe(of.recipe, {}, config::project());
  EXPECT_TRUE(loaded && recipe);
  const auto runs = run_by_source(*loaded, *recipe, {});
  EXPECT_TRUE(runs) << runs.error().message();
  EXPECT_EQ(runs->at(2).telemetry, TelemetrySource::Streams);
  EXPECT_EQ(runs->at(4).period, Span::ms(250));
  return {runs->at(0).summary, runs->at(2).summary, runs->at(4).summary};
}

TEST(TelemetrySources, StreamsAreAsGoodAsStepReports) {
  for (const Case& of :
       {Case{"azure-conv-2p2d", "miad"}, Case{"azure-conv-2p2d", "voltanallm"}, Case{"azure-conv-2p2d", "wattle"},
        Case{"azure-conv-8", "miad"}, Case{"azure-conv-8", "wattle"},
        // Its emergency ladder counts a request that waits for the end of a chunk as not begun.
        Case{"azure-conv-8", "dynamollm-ours", 1.15}}) {
    const Known known = run(of);
    const std::string where = std::string(of.scenario) + ", " + of.recipe;
    EXPECT_GE(known.streams.slo.all, known.steps.slo.all - 0.02) << where;
    EXPECT_LE(known.streams.energy.total.value(), of.energy * known.steps.energy.total.value()) << where;
  }
}

/// They say nothing of tokens and of prompts that are computed.
TEST(TelemetrySources, PoliciesThatCountTokensKeepTheirClocksUpWhereNobodyCounts) {
  for (const Case& of : {Case{"azure-conv-2p2d", "miad"}, Case{"azure-conv-8", "dynamollm"}}) {
    const Known known = run(of);
    EXPECT_GE(known.gauges.slo.all, known.steps.slo.all - 0.05) << of.scenario << ", " << of.recipe;
  }
}

}  // namespace
}  // namespace wattle::experiment
