// Ours: the influence of the overrun watchdog on the published evaluation.
#include <fmt/core.h>

#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

Result<Section> watchdog(const System& system, double seconds) {
  Section made;
  made.source = "ours: frequency.overrun_ms (in neither paper)";
  made.note = fmt::format(
      "Simulated: arrivals for {:.0f} s. A step that outlasts its prediction by 5 ms raises the clock at once; off: it "
      "does not. optimistic: the predictor was profiled on an engine a fifth faster than the one that serves, and does "
      "not learn.",
      seconds);
  double energy = 0.0;
  double attainment = 0.0;
  for (const std::int64_t rate : {75, 90}) {
    for (const bool optimistic : {false, true}) {
      const auto profiled =
          optimistic ? std::vector<std::string>{"measurement.profile_scale=0.8"} : std::vector<std::string>{};
      const auto scenario = analysed_scenario(rate, seconds, profiled);
      if (!scenario) return std::unexpected(scenario.error());
      journal::RunSummary runs[2];
      for (const bool on : {false, true}) {
        Controlled how{system.recipe, {fmt::format("frequency.overrun_ms={}", on ? 5 : 0)}};
        if (optimistic) how.set.emplace_back("predictor.online=false");
        auto run = serve(*scenario, how);
        if (!run) return std::unexpected(run.error());
        const auto base =
            fmt::format("watchdog/rps{}/{}/{}/", rate, optimistic ? "optimistic" : "true", on ? "on" : "off");
        add_row(made, base + "energy", "J", run->energy.total.value());
        add_attainment(made, base, *run);
        add_row(made, base + "overruns", "steps", static_cast<double>(run->overruns));
        runs[on ? 1 : 0] = std::move(*run);
      }
      const double more = 100.0 * (runs[1].energy.total.value() / runs[0].energy.total.value() - 1.0);
      const auto base = fmt::format("watchdog/rps{}/{}/", rate, optimistic ? "optimistic" : "true");
      add_row(made, base + "energy_more", "%", more);
      if (!optimistic) energy = std::max(energy, std::abs(more));
      if (optimistic) attainment = std::max(attainment, 100.0 * (runs[0].slo.tbt - runs[1].slo.tbt));
    }
  }
  made.targets = {
      {"watchdog_changes_energy", "<= 1 % where the predictor is true", energy, energy <= 1.0},
      {"watchdog_costs_itl_attainment", "<= 0 points where it is optimistic", attainment, attainment <= 0.0},
  };
  return made;
}

}  // namespace wattle::reproduce
