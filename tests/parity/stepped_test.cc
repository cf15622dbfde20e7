// The same scenario through the simulator (skipping steps) and through the live objects (every step, over the wire
// format) gives the same decisions at the same nanoseconds.
#include <gtest/gtest.h>

#include <cstring>

#include "config/locate.h"
#include "stepped_live.h"

namespace wattle::parity {
namespace {

struct Variant {
  const char* name;
  const char* scenario;
  const char* recipe;
  std::vector<std::string> set;
  bool learns = false;
};

void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

class Decisions final : public journal::Sink {
 public:
  void decision(const journal::DecisionRecord& record) override { records.push_back(record); }
  std::vector<journal::DecisionRecord> records;
};

experiment::PreparedRun prepare(const Variant& v) {
  const auto set = systems::split_overrides(config::parse_overrides(v.set).value()).value();
  const auto scenario = config::load_scenario(v.scenario, set.scenario, config::project());
  const auto recipe = systems::load_recipe(v.recipe, set.recipe, config::project());
  return std::move(experiment::prepare_run(scenario.value(), recipe.value(), "").value());
}

class Stepped : public testing::TestWithParam<Variant> {};

TEST_P(Stepped, SimulatorAndLiveDecideAlike) {
  auto simulated = prepare(GetParam());
  Decisions expected;
  simulated.setup.sink = &expected;
  const auto result = sim::simulate(std::move(simulated.setup));
  ASSERT_GT(result.summary.requests.finished, 50) << "the scenario is too small to show anything";

  auto live = prepare(GetParam());
  const auto decisions = run_stepped_live(live);

  if (GetParam().learns) {
    EXPECT_GT(result.summary.prediction.adopted, 0) << "nothing was learnt";
  }

  const auto n = std::min(decisions.size(), expected.records.size());
  for (std::size_t i = 0; i < n; ++i) {
    const auto& a = expected.records[i];
    const auto& b = decisions[i];
    ASSERT_TRUE(a.at == b.at && a.kind == b.kind && a.request == b.request && a.instance == b.instance &&
                a.value == b.value && a.mode == b.mode && std::strcmp(a.reason, b.reason) == 0)
        << "decision " << i << ": simulated at " << a.at.ns() << " ns instance " << a.instance.value() << " value "
        << a.value << " (" << a.reason << "), live at " << b.at.ns() << " ns instance " << b.instance.value()
        << " value " << b.value << " (" << b.reason << ")";
  }
  EXPECT_EQ(decisions.size(), expected.records.size());
  std::int64_t clocks = 0;
  for (const auto& record : decisions) clocks += record.kind == journal::DecisionKind::Clock ? 1 : 0;
  EXPECT_GT(clocks, 4) << "no clock was ever decided";
}

const std::vector<std::string> kSlice{"workload.trace=", "workload.synthetic=azure-conv", "workload.duration_s=240"};

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.begin(), kSlice.begin(), kSlice.end());
  return more;
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, Stepped,
    testing::Values(
        Variant{"eco_freq_2p2d", "azure-conv-2p2d", "eco-freq", with({})},
        Variant{"eco_freq_tight_itl", "azure-conv-2p2d", "eco-freq", with({"slo.itl_ms=15"})},
        Variant{"power_of_two", "azure-conv-2p2d", "eco-freq",
                with({"routing.prefill.policy=power-of-two", "routing.decode.policy=least-loaded"})},
        Variant{"eco_route", "azure-conv-2p2d", "voltanallm", with({"slo.itl_ms=15"})},
        Variant{"eco_route_five_levels", "azure-conv-2p2d", "voltanallm-5l", with({"slo.itl_ms=15"})},
        Variant{"tile_aware", "azure-conv-2p2d", "eco-freq",
                with({"slo.itl_ms=15", "routing.decode.policy=tile-aware", "routing.decode.tile_requests=4"})},
        Variant{"window", "azure-conv-2p2d", "eco-freq", with({"frequency.window_ms=1000"})},
        Variant{"held_queue", "azure-conv-2p2d", "eco-freq",
                with({"admission.policy=bounded", "admission.max_in_flight_per_instance=4"})},
        Variant{"shadowed", "azure-conv-2p2d", "eco-freq", with({"frequency.prefill.mode=shadow"})},
        Variant{"colocated", "azure-conv-8", "eco-freq", with({"slo.ttft_ms=600", "slo.itl_ms=60"})},
        Variant{"throttllem", "throttllem-llama2-13b-tp2", "throttllem", with({})},
        Variant{"throttllem_errors", "throttllem-llama2-13b-tp2", "throttllem-30",
                with({"workload.rate_scale=0.7", "slo.e2e_ms=20000"})},
        Variant{"throttllem_on_leave", "throttllem-llama2-13b-tp1", "throttllem-15",
                with({"frequency.on_leave=true", "frequency.park_idle=true"})},
        Variant{"throttllem_classes", "throttllem-llama2-13b-tp2", "throttllem", with({"length.source=classes"})},
        Variant{"throttllem_learned", "throttllem-llama2-13b-tp2", "throttllem",
                with({"length.source=learned", "admission.overrun=residual", "workload.rate_scale=0.7"})},
        Variant{"throttllem_sweet", "throttllem-llama2-13b-tp2", "throttllem-sweet", with({})},
        Variant{"throttllem_shadow", "throttllem-llama2-13b-tp2", "throttllem", with({"admission.mode=shadow"})},
        Variant{"retail", "throttllem-llama2-13b-tp2", "retail", with({"slo.e2e_ms=12000"})},
        Variant{"overruns", "azure-conv-2p2d", "eco-freq", with({"slo.itl_ms=15", "frequency.overrun_ms=0.1"})},
        Variant{"greenserve", "azure-conv-2p2d", "greenserve", with({"predictor.refit_every=400"}), true},
        Variant{"greenserve_lines", "azure-conv-2p2d", "greenserve",
                with({"predictor.form=linear", "predictor.refit_every=100", "measurement.profile_scale=1.3",
                      "slo.itl_ms=15"}),
                true},
        Variant{"parking", "azure-conv-2p2d", "idle-parking", with({})}),
    [](const auto& variant) { return std::string(variant.param.name); });

}  // namespace
}  // namespace wattle::parity
