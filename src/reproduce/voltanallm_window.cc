// Figure 19 of VoltanaLLM: a clock chosen at every iteration, or once a window.
#include <fmt/core.h>

#include <algorithm>

#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

Result<Section> windows(const System& system, double seconds) {
  Section made;
  made.source = "Figure 19 (plotted only: no published numbers)";
  made.note = fmt::format(
      "Simulated as in the paper on one prefill and one decode instance, where EcoRoute has no effect; rates are half "
      "of the others' and arrivals last {:.0f} s. The paper's text: windows cost attainment in both phases, far more "
      "in prefill, whose batches change from step to step.",
      seconds);
  constexpr int kWindows[]{0, 500, 1000, 2000, 5000};
  PlotMaker ttft("TTFT attainment", "requests/s", "%");
  PlotMaker itl("ITL attainment", "requests/s", "%");
  PlotMaker energy("energy", "requests/s", "kJ");
  double ttft_lost[std::size(kWindows)]{};
  double itl_lost[std::size(kWindows)]{};
  for (const std::int64_t both : system.rates) {
    const std::int64_t rate = both / 2;
    const auto scenario = analysed_scenario(rate, seconds, {"fleet.0.count=1", "fleet.1.count=1"});
    if (!scenario) return std::unexpected(scenario.error());
    const auto fixed = serve(*scenario, {"static-sweet"});
    if (!fixed) return std::unexpected(fixed.error());
    add_row(made, fmt::format("fig19/rps{}/1005/energy", rate), "J", fixed->energy.total.value());
    add_attainment(made, fmt::format("fig19/rps{}/1005/", rate), *fixed);
    journal::Attainment immediate;
    for (std::size_t i = 0; i < std::size(kWindows); ++i) {
      const auto run = serve(*scenario, {system.recipe, {fmt::format("frequency.window_ms={}", kWindows[i])}});
      if (!run) return std::unexpected(run.error());
      const auto name = kWindows[i] == 0 ? std::string("iteration") : fmt::format("{}ms", kWindows[i]);
      const auto base = fmt::format("fig19/rps{}/{}/", rate, name);
      add_row(made, base + "energy", "J", run->energy.total.value());
      add_attainment(made, base, *run);
      const auto x = static_cast<double>(rate);
      ttft.add(name, x, 100.0 * run->slo.ttft);
      itl.add(name, x, 100.0 * run->slo.tbt);
      energy.add(name, x, run->energy.total.value() / 1e3);
      if (i == 0) immediate = run->slo;
      ttft_lost[i] += 100.0 * (immediate.ttft - run->slo.ttft) / static_cast<double>(system.rates.size());
      itl_lost[i] += 100.0 * (immediate.tbt - run->slo.tbt) / static_cast<double>(system.rates.size());
    }
  }
  double least_ttft = 100.0;
  double least_itl = 100.0;
  double least_more = 100.0;
  for (std::size_t i = 1; i < std::size(kWindows); ++i) {
    add_row(made, fmt::format("fig19/mean/{}ms/ttft_lost", kWindows[i]), "points", ttft_lost[i]);
    add_row(made, fmt::format("fig19/mean/{}ms/itl_lost", kWindows[i]), "points", itl_lost[i]);
    least_ttft = std::min(least_ttft, ttft_lost[i]);
    least_itl = std::min(least_itl, itl_lost[i]);
    least_more = std::min(least_more, ttft_lost[i] - itl_lost[i]);
  }
  made.targets = {
      {"windows_cost_ttft_attainment", "> 0 points with every window, mean over rates", least_ttft, least_ttft > 0.0},
      {"windows_cost_itl_attainment", "> 0 points with every window, mean over rates", least_itl, least_itl > 0.0},
      {"prefill_suffers_more", "> 0 points more, every window, mean over rates", least_more, least_more > 0.0},
  };
  made.plots = {ttft.take(), itl.take(), energy.take()};
  return made;
}

}  // namespace wattle::reproduce
