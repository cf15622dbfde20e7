// The same scenario through the simulator (skipping steps) and through the live
// objects (every step, over the wire format) gives the same decisions at the
// same nanoseconds.
#include <gtest/gtest.h>

#include <cstring>

#include "config/locate.h"
#include "stepped_live.h"

namespace wattle::parity {
namespace {

struct Variant {
  std::string name;
  const char* scenario;
  const char* recipe;
  std::vector<std::string> set;
  bool learns = false;
  bool grows = false;
};

void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

class Decisions final : public journal::Sink {
 public:
  void decision(const journal::DecisionRecord& record) override { records.push_back(record); }
  void joined(const journal::Instance&) override { ++joins; }
  std::vector<journal::DecisionRecord> records;
  int joins = 0;
};

/// One instance more every 40 s, up to three.
class Growing final : public policy::ScalingPolicy {
 public:
  explicit Growing(std::size_t shapes) : wanted_(shapes, 0) {}
  Plan plan(const policy::ScalingView& view) override {
    wanted_.back() = static_cast<std::int32_t>(std::clamp<std::int64_t>(view.now.ns() / 40'000'000'000, 1, 3));
    return Plan::of(wanted_, "growing");
  }

 private:
  std::vector<std::int32_t> wanted_;
};

experiment::PreparedRun prepare(const Variant& v) {
  const auto set = systems::split_overrides(config::parse_overrides(v.set).value()).value();
  const auto scenario = config::load_scenario(v.scenario, set.scenario, config::project());
  const auto recipe = systems::load_recipe(v.recipe, set.recipe, config::project());
  auto run = std::move(experiment::prepare_run(scenario.value(), recipe.value(), "").value());
  if (v.grows) run.setup.scaling.policy.policy = std::make_shared<Growing>(run.setup.scaling.shapes.size());
  return run;
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

  if (GetParam().grows) {
    EXPECT_GE(expected.joins, 2) << "nobody has joined";
  }
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

std::vector<Variant> variants() {
  std::vector<Variant> all{
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
      Variant{"throttllem_lowest", "throttllem-llama2-13b-tp2", "throttllem",
              with({"frequency.pick=lowest", "workload.rate_scale=0.3", "slo.e2e_ms=10000"})},
      Variant{"throttllem_shadow", "throttllem-llama2-13b-tp2", "throttllem", with({"admission.mode=shadow"})},
      Variant{"retail", "throttllem-llama2-13b-tp2", "retail", with({"slo.e2e_ms=12000"})},
      Variant{"overruns", "azure-conv-2p2d", "eco-freq", with({"slo.itl_ms=15", "frequency.overrun_ms=0.1"})},
      Variant{"greenserve", "azure-conv-2p2d", "greenserve", with({"predictor.refit_every=400"}), true},
      Variant{"greenserve_lines", "azure-conv-2p2d", "greenserve",
              with({"predictor.form=linear", "predictor.refit_every=100", "measurement.profile_scale=1.3",
                    "slo.itl_ms=15"}),
              true},
      Variant{.name = "grows",
              .scenario = "throttllem-llama2-13b-autoscale",
              .recipe = "throttllem-autoscale",
              .set = with({"spawn.load_s=7", "workload.rate_window_s=60"}),
              .learns = false,
              .grows = true},
      Variant{"hand_overs", "voltanallm-2p2d", "wattle", {"workload.requests=3000"}},
      Variant{"hand_overs_few_steps", "azure-conv-2p2d", "wattle",
              with({"slo.ttft_ms=600", "link.handoff_steps=2", "frequency.late_handovers=0.05"})},
      Variant{"drafts", "azure-conv-2p2d", "wattle",
              with({"slo.itl_ms=8", "engine.speculative_tokens=3", "engine.acceptance_rate=0.7"})},
      Variant{"late_tokens", "azure-conv-1", "wattle", with({"slo.itl_ms=40"})},
      Variant{"parking", "azure-conv-2p2d", "idle-parking", with({})}};
  // Once as with a scheduler plugin, once as engines report.
  const std::size_t n = all.size();
  for (std::size_t i = 0; i < n; ++i) {
    Variant ended = all[i];
    ended.name += "_ended";
    ended.set.emplace_back("measurement.telemetry=ends");
    all.push_back(std::move(ended));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Recipes, Stepped, testing::ValuesIn(variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace
}  // namespace wattle::parity
