// Figure 14 of VoltanaLLM: what EcoFreq saves alone, and what EcoRoute adds.
#include <fmt/core.h>

#include <cmath>

#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

Result<Section> ablation(const System& system, double seconds) {
  Section made;
  made.source = "Figure 14 (plotted only: no published numbers)";
  made.note = fmt::format(
      "Simulated: Llama-3.1-8B, ShareGPT's lengths, arrivals for {:.0f} s. Energy is what the ledger books to prompts "
      "(prefill instances while they work), to tokens (decode instances), and to instances without work; the paper "
      "gives that of the instances, idle or not. The paper's text: EcoFreq alone saves in both phases, EcoRoute adds "
      "savings in decode only; its Figure 16 shows EcoRoute at 75 requests/s around the border of 256.",
      seconds);
  PlotMaker prefill("energy of prompts", "requests/s", "J");
  PlotMaker decode("energy of tokens", "requests/s", "J");
  PlotMaker added("what EcoRoute adds to EcoFreq", "requests/s", "% of decode energy");
  PlotMaker itl("ITL attainment", "requests/s", "%");
  double worst_prefill = 0.0;
  double least_ecofreq_prefill = 100.0;
  double least_ecofreq_decode = 100.0;
  double most_added = -100.0;
  double added_sum = 0.0;
  std::int64_t most_added_at = 0;
  for (const std::int64_t rate : system.rates) {
    const auto scenario = analysed_scenario(rate, seconds);
    if (!scenario) return std::unexpected(scenario.error());
    journal::RunSummary runs[4];
    const Controlled how[4]{
        {"static-max"}, {system.recipe, {"routing.decode.policy=round-robin"}}, {system.recipe}, {"static-sweet"}};
    constexpr const char* kNames[4]{"1410", "ecofreq", "full", "1005"};
    const auto x = static_cast<double>(rate);
    for (int i = 0; i < 4; ++i) {
      auto run = serve(*scenario, how[i]);
      if (!run) return std::unexpected(run.error());
      add_phases(made, fmt::format("fig14/rps{}/{}/", rate, kNames[i]), *run);
      prefill.add(kNames[i], x, run->energy.prefill.value());
      decode.add(kNames[i], x, run->energy.decode.value());
      itl.add(kNames[i], x, 100.0 * run->slo.tbt);
      runs[i] = std::move(*run);
    }
    const auto saving = [&](const char* name, Joules ours, Joules baseline) {
      const double percent = saved_percent(ours.value(), baseline.value());
      add_row(made, fmt::format("fig14/rps{}/{}", rate, name), "%", percent);
      return percent;
    };
    least_ecofreq_prefill = std::min(least_ecofreq_prefill,
                                     saving("ecofreq_saving_prefill", runs[1].energy.prefill, runs[0].energy.prefill));
    least_ecofreq_decode =
        std::min(least_ecofreq_decode, saving("ecofreq_saving_decode", runs[1].energy.decode, runs[0].energy.decode));
    worst_prefill = std::max(worst_prefill,
                             std::abs(saving("ecoroute_adds_prefill", runs[2].energy.prefill, runs[1].energy.prefill)));
    const double more = saving("ecoroute_adds_decode", runs[2].energy.decode, runs[1].energy.decode);
    added.add(system.name, x, more);
    added_sum += more;
    if (more > most_added) {
      most_added = more;
      most_added_at = rate;
    }
  }
  made.targets = {
      {"ecofreq_saves_in_prefill", "> 0 % at every rate", least_ecofreq_prefill, least_ecofreq_prefill > 0.0},
      {"ecofreq_saves_in_decode", "> 0 % at every rate", least_ecofreq_decode, least_ecofreq_decode > 0.0},
      {"ecoroute_adds_in_decode", "> 0 %, mean over rates", added_sum / static_cast<double>(system.rates.size()),
       added_sum > 0.0},
      {"ecoroute_adds_nothing_in_prefill", "within 1 % at every rate", worst_prefill, worst_prefill <= 1.0},
      {"ecoroute_adds_most_at", "75±5 requests/s", static_cast<double>(most_added_at),
       most_added > 0.0 && std::abs(static_cast<double>(most_added_at) - 75.0) <= 5.0},
  };
  made.plots = {prefill.take(), decode.take(), added.take(), itl.take()};
  return made;
}

}  // namespace wattle::reproduce
