// EcoRoute against other ways to choose a decode instance.
#include <fmt/core.h>

#include <algorithm>

#include "reproduce/voltanallm_runs.h"

namespace wattle::apps::reproduce {

Result<Section> routings(const System& system, double seconds) {
  Section made;
  made.source = "Algorithm 2 and its baselines (no published numbers)";
  made.note = fmt::format(
      "Simulated: arrivals for {:.0f} s; EcoFreq chooses the clocks under all. tile-aware is the reference "
      "implementation's own policy. Case 2(b) takes the lowest current clock (VoltanaLLM) or the lowest resulting one "
      "(GreenServe); with two levels the allowed spread of 500 MHz exceeds their distance, so it never comes up and "
      "both readings are one. as-published: an instance beyond its objective even at the highest clock still gets "
      "requests (spare_overloaded off).",
      seconds);
  struct Routing {
    const char* name;
    std::vector<std::string> set;
  };
  const Routing routings[]{
      {"round-robin", {"routing.decode.policy=round-robin"}},
      {"least-loaded", {"routing.decode.policy=least-loaded"}},
      {"tile-aware", {"routing.decode.policy=tile-aware"}},
      {"eco-route/lowest-current", {"routing.decode.beyond_spread=lowest-current"}},
      {"eco-route/lowest-resulting", {"routing.decode.beyond_spread=lowest-resulting"}},
      {"eco-route/as-published", {"routing.decode.spare_overloaded=false"}},
  };
  for (const auto& [levels, recipe] : {std::pair("2l", system.recipe), std::pair("5l", system.five_levels)}) {
    PlotMaker energy(fmt::format("decode energy against round-robin, {}", levels), "requests/s", "% saved");
    PlotMaker itl(fmt::format("ITL attainment, {}", levels), "requests/s", "%");
    double worst_energy = 0.0;
    double readings = 0.0;
    for (const std::int64_t rate : system.rates) {
      if (rate < 60) continue;  // nothing rises yet
      const auto scenario = analysed_scenario(rate, seconds);
      if (!scenario) return std::unexpected(scenario.error());
      double baseline = 0.0;
      double by_reading[2]{};
      for (const Routing& routing : routings) {
        const auto run = serve(*scenario, {recipe, routing.set});
        if (!run) return std::unexpected(run.error());
        const auto base = fmt::format("routing/{}/rps{}/{}/", levels, rate, routing.name);
        const double joules = run->energy.decode.value();
        if (baseline == 0.0) baseline = joules;
        add_row(made, base + "decode_energy", "J", joules);
        add_row(made, base + "itl_attainment", "%", 100.0 * run->slo.tbt);
        const double saving = saved_percent(joules, baseline);
        if (&routing != &routings[0]) add_row(made, base + "saving", "%", saving);
        energy.add(routing.name, static_cast<double>(rate), saving);
        itl.add(routing.name, static_cast<double>(rate), 100.0 * run->slo.tbt);
        if (&routing == &routings[3]) by_reading[0] = saving;
        if (&routing == &routings[4]) by_reading[1] = saving;
      }
      worst_energy = std::max(worst_energy, -std::max(by_reading[0], by_reading[1]));
      readings = std::max(readings, std::abs(by_reading[0] - by_reading[1]));
    }
    add_row(made, fmt::format("routing/{}/readings_differ", levels), "points", readings);
    made.marks.push_back({fmt::format("eco_route_costs_{}", levels), "<= 0.5 % more decode energy than round-robin",
                          worst_energy, worst_energy <= 0.5});
    made.plots.push_back(energy.take());
    made.plots.push_back(itl.take());
  }
  return made;
}

}  // namespace wattle::apps::reproduce
