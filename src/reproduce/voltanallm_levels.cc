// Figure 18 of VoltanaLLM: two clocks to choose from, or five.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

Result<Section> levels(const System& system, double seconds) {
  Section made;
  made.source = "Figure 18 (plotted only: no published numbers)";
  made.note = fmt::format(
      "Simulated: arrivals for {:.0f} s; 1005 and 1410 MHz with a spread of 500 MHz allowed, or 1005, 1095, 1200, 1305 "
      "and 1410 with 150. The paper's text: five levels bring prefill nothing, and decode slightly less energy at "
      "slightly lower attainment.",
      seconds);
  PlotMaker saved("what five levels save", "requests/s", "%");
  PlotMaker attained("ITL attainment", "requests/s", "%");
  double prefill_most = 0.0;
  double decode_sum = 0.0;
  double itl_sum = 0.0;
  for (const std::int64_t rate : system.rates) {
    const auto scenario = analysed_scenario(rate, seconds);
    if (!scenario) return std::unexpected(scenario.error());
    const auto two = serve(*scenario, {system.recipe});
    if (!two) return std::unexpected(two.error());
    const auto five = serve(*scenario, {system.five_levels});
    if (!five) return std::unexpected(five.error());
    const auto base = fmt::format("fig18/rps{}/", rate);
    add_phases(made, base + "2l/", *two);
    add_phases(made, base + "5l/", *five);
    const auto fixed = serve(*scenario, {"static-sweet"});
    if (!fixed) return std::unexpected(fixed.error());
    add_phases(made, base + "1005/", *fixed);
    const double prefill = saved_percent(five->energy.prefill.value(), two->energy.prefill.value());
    const double decode = saved_percent(five->energy.decode.value(), two->energy.decode.value());
    add_row(made, base + "five_save_in_prefill", "%", prefill);
    add_row(made, base + "five_save_in_decode", "%", decode);
    const auto x = static_cast<double>(rate);
    saved.add("prefill", x, prefill);
    saved.add("decode", x, decode);
    attained.add("two levels", x, 100.0 * two->slo.tbt);
    attained.add("five levels", x, 100.0 * five->slo.tbt);
    prefill_most = std::max(prefill_most, std::abs(prefill));
    decode_sum += decode;
    itl_sum += 100.0 * (five->slo.tbt - two->slo.tbt);
  }
  const auto n = static_cast<double>(system.rates.size());
  made.targets = {
      {"five_levels_in_prefill", "within 2 % at every rate", prefill_most, prefill_most <= 2.0},
      {"five_levels_save_in_decode", "0 to 5 %, mean over rates", decode_sum / n,
       decode_sum > 0.0 && decode_sum / n <= 5.0},
      {"five_levels_itl_attainment", "0 to -5 points, mean over rates", itl_sum / n,
       itl_sum <= 0.0 && itl_sum / n >= -5.0},
  };
  made.plots = {saved.take(), attained.take()};
  return made;
}

}  // namespace wattle::reproduce
