// VoltanaLLM's algorithms on a second GPU.
#include <fmt/core.h>

#include <algorithm>

#include "config/locate.h"
#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

Result<Section> gh200(const System& system, double seconds) {
  Section made;
  made.source = "GH200, Qwen3-32B (no published numbers in VoltanaLLM's text)";
  made.note = fmt::format(
      "Simulated: scenario voltanallm-gh200-2p2d, arrivals for {:.0f} s, objectives 1200/120 ms, clocks of the GH200's "
      "own sweet spots. Its physics is data-sheet arithmetic with another GPU's factors: nothing was fitted to a "
      "GH200, so read differences between rows, not joules.",
      seconds);
  // The paper's clocks: each phase's sweet spot on GH200. With our profile, scaled from another GPU, `sweet` is lower.
  const std::vector<std::string> full{"frequency.prefill.clocks_mhz=1095,1980", "frequency.decode.clocks_mhz=1395,1980",
                                      "routing.decode.max_spread_mhz=600"};
  const std::vector<std::string> full5l{"frequency.prefill.clocks_mhz=1095,1305,1515,1740,1980",
                                        "frequency.decode.clocks_mhz=1395,1545,1695,1830,1980"};
  const std::vector<std::string> fixed{"frequency.prefill.clock_mhz=1095", "frequency.decode.clock_mhz=1395"};
  const auto five = std::string(system.recipe) + "-5l";
  PlotMaker energy("energy", "requests/s", "kJ");
  PlotMaker itl("ITL attainment", "requests/s", "%");
  PlotMaker ttft("TTFT attainment", "requests/s", "%");
  double best = 0.0;
  double worst_gap = -100.0;
  for (const std::int64_t rate : {10, 20, 30, 40, 50, 60}) {
    const auto overrides = config::parse_overrides(
        {fmt::format("workload.rate_per_s={}", rate),
         fmt::format("workload.requests={:.0f}", static_cast<double>(rate) * seconds), "slo.tbt_ms=120"});
    if (!overrides) return std::unexpected(overrides.error());
    const auto scenario = config::load_scenario("voltanallm-gh200-2p2d", *overrides, config::project());
    if (!scenario) return std::unexpected(scenario.error());
    journal::RunSummary highest;
    const std::vector<std::string> ecofreq{full[0], full[1], "routing.decode.policy=round-robin"};
    const std::pair<const char*, Controlled> systems[]{{"max", {"static-max"}},
                                                       {"fixed", {"static-sweet", fixed}},
                                                       {"ecofreq", {system.recipe, ecofreq}},
                                                       {"full", {system.recipe, full}},
                                                       {"full5l", {five.c_str(), full5l}}};
    for (const auto& [name, how] : systems) {
      const auto run = serve(*scenario, how);
      if (!run) return std::unexpected(run.error());
      const auto base = fmt::format("gh200/rps{}/{}/", rate, name);
      add_phases(made, base, *run);
      const auto x = static_cast<double>(rate);
      energy.add(name, x, run->energy.total.value() / 1e3);
      ttft.add(name, x, 100.0 * run->slo.ttft);
      itl.add(name, x, 100.0 * run->slo.tbt);
      if (how.recipe == std::string_view("static-max")) {
        highest = *run;
        continue;
      }
      const double saving = saved_percent(run->energy.total.value(), highest.energy.total.value());
      add_row(made, base + "saving", "%", saving);
      if (name != std::string_view("full")) continue;
      best = std::max(best, saving);
      worst_gap =
          std::max({worst_gap, 100.0 * (highest.slo.ttft - run->slo.ttft), 100.0 * (highest.slo.tbt - run->slo.tbt)});
    }
  }
  made.targets = {
      {"best_saving", "> 0 %", best, best > 0.0},
      {"attainment_below_max", "<= 5 points, both objectives, every rate", worst_gap, worst_gap <= 5.0},
  };
  made.plots = {energy.take(), ttft.take(), itl.take()};
  return made;
}

}  // namespace wattle::reproduce
