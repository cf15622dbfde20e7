// Figures 9 and 16 of VoltanaLLM: two decode instances around the border of 256 requests.
#include <fmt/core.h>

#include <array>
#include <cmath>

#include "config/make_step_model.h"
#include "engine/step_energy.h"
#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

namespace {

constexpr std::int32_t kBorder = 256;
constexpr std::int64_t kRate = 75;  ///< the figure's, requests/s
constexpr MegaHertz kLow{1005};
constexpr MegaHertz kHigh{1410};
constexpr Span kPeriod = Span::ms(50);
constexpr int kPlotEvery = 20;      ///< samples: one point a second
const Span kSettled = Span::s(20);  ///< batches fill up before

/// Of one decode instance's samples.
struct Shares {
  double samples = 0.0, at_or_below_256 = 0.0, at_or_below_own = 0.0, low = 0.0, clock = 0.0, batch = 0.0;
};

/// The two decode instances, the one with the larger mean batch last; while requests arrive and once the batches are
/// full. `own`: the largest batch that the low clock serves.
std::array<Shares, 2> shares(const std::vector<journal::Sample>& samples, double seconds, std::int32_t own) {
  std::array<Shares, 2> of;
  const double from = std::min(kSettled.seconds(), seconds / 4.0);
  for (const auto& s : samples) {
    if (s.instance.value() < 2 || s.at.seconds() < from || s.at.seconds() >= seconds) continue;
    Shares& into = of[static_cast<std::size_t>(s.instance.value() - 2)];
    into.samples += 1.0;
    into.at_or_below_256 += s.decode_requests <= kBorder ? 1.0 : 0.0;
    into.at_or_below_own += s.decode_requests <= own ? 1.0 : 0.0;
    into.low += s.clock <= kLow ? 1.0 : 0.0;
    into.clock += s.clock.value();
    into.batch += s.decode_requests;
  }
  if (of[0].batch > of[1].batch) std::swap(of[0], of[1]);
  return of;
}

/// One step of the scenario's decode instances.
class DecodeStep {
 public:
  static constexpr std::int64_t kContext = 450;  ///< tokens: a mean prompt, and half of the mean answer

  DecodeStep(engine::StepModel model, double aim_ms) : model_(std::move(model)), aim_ms_(aim_ms) {}
  [[nodiscard]] double ms(std::int32_t batch, MegaHertz clock) const {
    const auto line = model_.decode(batch, batch * kContext, clock);
    return std::ldexp(static_cast<double>(line.base + line.slope * batch * kContext), -engine::kTimeFractionBits) *
           1e-6;
  }
  [[nodiscard]] bool low_serves(std::int32_t batch) const { return ms(batch, kLow) <= aim_ms_; }
  /// Energy of a step at the lower clock that keeps the objective.
  [[nodiscard]] double joules(std::int32_t batch) const {
    const MegaHertz clock = low_serves(batch) ? kLow : kHigh;
    return engine::step_energy(model_.decode(batch, batch * kContext, clock), batch * kContext).joules().value();
  }
  [[nodiscard]] std::int32_t own_border() const {
    std::int32_t batch = 1;
    while (batch < 1024 && low_serves(batch + 1)) ++batch;
    return batch;
  }

 private:
  engine::StepModel model_;
  double aim_ms_;
};

Result<DecodeStep> decode_step(const config::LoadedScenario& loaded) {
  const auto engine = config::engine_of(loaded.scenario, loaded.scenario.pools[1]);
  auto model = config::make_step_model(loaded.gpus[1], loaded.llm, loaded.scenario.pools[1].tensor_parallel, engine);
  if (!model) return std::unexpected(model.error());
  return DecodeStep(std::move(*model), kAim * loaded.scenario.slo.itl->millis());
}

/// The paper's example: 520 requests shared equally, or 240 and 280; and the same 8 % around our own border.
void add_example(Section& made, const DecodeStep& step) {
  for (const std::int32_t batch : {240, 256, 257, 260, 280}) {
    const auto base = fmt::format("fig9/batch{}/", batch);
    add_row(made, base + "1005mhz/step", "ms", step.ms(batch, kLow));
    add_row(made, base + "1410mhz/step", "ms", step.ms(batch, kHigh));
    add_row(made, base + "clock", "MHz", step.low_serves(batch) ? kLow.value() : kHigh.value());
  }
  const auto example = [&](const char* name, std::int32_t each, std::int32_t less) {
    const double equal = step.joules(each) / each;
    const double apart = (step.joules(less) + step.joules(2 * each - less)) / (2 * each);
    add_row(made, fmt::format("fig9/{}+{}/energy_per_token", each, each), "mJ", 1e3 * equal);
    add_row(made, fmt::format("fig9/{}+{}/energy_per_token", less, 2 * each - less), "mJ", 1e3 * apart);
    const double saved = saved_percent(apart, equal);
    made.targets.push_back({fmt::format("unequal_saves_{}", name), "> 0 % of energy per token", saved, saved > 0.0});
  };
  example("around_256", 260, 240);
  const std::int32_t own = step.own_border();
  add_row(made, "fig9/own_border", "requests", own);
  if (own != kBorder) example("around_own_border", own + 4, own - 16);
}

/// The rate at which round-robin's batches are nearest `own` on average.
Result<std::int64_t> rate_at(std::int32_t own, double seconds) {
  std::int64_t best = kRate;
  double nearest = 1e9;
  for (const std::int64_t rate : kVoltana.rates) {
    const auto scenario = analysed_scenario(rate, seconds);
    if (!scenario) return std::unexpected(scenario.error());
    const auto run = serve_sampled(*scenario, {"ecofreq-only"}, Span::ms(500));
    if (!run) return std::unexpected(run.error());
    const auto of = shares(run->samples, seconds, own);
    const double batch = (of[0].batch + of[1].batch) / std::max(1.0, of[0].samples + of[1].samples);
    if (std::abs(batch - own) >= nearest) continue;
    nearest = std::abs(batch - own);
    best = rate;
  }
  return best;
}

/// One point a second: the batches, and the clocks' means.
void plot_decodes(Section& made, const std::string& name, const std::vector<journal::Sample>& samples, double seconds) {
  PlotMaker batch("decode batch, " + name, "s", "requests");
  PlotMaker clock("decode clock, " + name, "s", "MHz");
  std::array<double, 2> sum{};
  std::array<int, 2> count{};
  for (const auto& s : samples) {
    if (s.instance.value() < 2 || s.at.seconds() >= seconds) continue;
    const auto i = static_cast<std::size_t>(s.instance.value() - 2);
    sum[i] += s.clock.value();
    if (++count[i] % kPlotEvery != 0) continue;
    const auto line = fmt::format("decode instance {}", i + 1);
    batch.add(line, s.at.seconds(), s.decode_requests);
    clock.add(line, s.at.seconds(), sum[i] / kPlotEvery);
    sum[i] = 0.0;
  }
  made.plots.push_back(batch.take());
  made.plots.push_back(clock.take());
}

/// Both routings at this rate.
Result<void> add_traces(Section& made, const System& system, std::int64_t rate, double seconds, std::int32_t own) {
  const auto scenario = analysed_scenario(rate, seconds);
  if (!scenario) return std::unexpected(scenario.error());
  const std::pair<const char*, Controlled> routed[]{
      {"round-robin", {system.recipe, {"routing.decode.policy=round-robin"}}}, {"ecoroute", {system.recipe}}};
  double most_low[2]{};  // share of time the instance that is longest at the low clock spends there
  for (std::size_t r = 0; r < std::size(routed); ++r) {
    const auto& [name, how] = routed[r];
    const auto run = serve_sampled(*scenario, how, kPeriod);
    if (!run) return std::unexpected(run.error());
    const auto top = fmt::format("fig16/rps{}/{}/", rate, name);
    const auto of = shares(run->samples, seconds, own);
    double mean_clock = 0.0;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto base = fmt::format("{}instance{}/", top, i + 1);
      const double n = std::max(1.0, of[i].samples);
      add_row(made, base + "batch", "requests", of[i].batch / n);
      add_row(made, base + "at_or_below_256", "% of time", 100.0 * of[i].at_or_below_256 / n);
      add_row(made, base + "at_or_below_own_border", "% of time", 100.0 * of[i].at_or_below_own / n);
      add_row(made, base + "at_1005mhz", "% of time", 100.0 * of[i].low / n);
      add_row(made, base + "clock", "MHz", of[i].clock / n);
      most_low[r] = std::max(most_low[r], 100.0 * of[i].low / n);
      mean_clock += of[i].clock / n / 2.0;
    }
    add_row(made, top + "clock", "MHz", mean_clock);
    add_row(made, top + "decode_energy", "J", run->summary.energy.decode.value());
    add_attainment(made, top, run->summary);
    plot_decodes(made, fmt::format("{} requests/s, {}", rate, name), run->samples, seconds);
  }
  made.targets.push_back({fmt::format("ecoroute_keeps_one_low_at_{}", rate),
                          "one instance longer at 1005 MHz than either under round-robin, points",
                          most_low[1] - most_low[0], most_low[1] > most_low[0]});
  return {};
}

}  // namespace

Result<Section> border(const System& system, double seconds) {
  Section made;
  made.source = "Figures 9 and 16 (plotted only: no published numbers but the border)";
  made.note = fmt::format(
      "Simulated at the figure's {} requests/s, and at the rate whose batches are nearest our own border; one sample "
      "each {:.0f} ms while requests arrive, from {:.0f} s on. fig9: one step of a decode batch with 450 tokens of "
      "context each; clock: the lower one of 1005 and 1410 MHz that EcoFreq chooses (45 ms). own_border: the largest "
      "batch for which EcoFreq keeps 1005 MHz by our physics, hence where EcoRoute has something to avoid; the paper's "
      "is 256. instance1 is the one with the smaller mean batch.",
      kRate, kPeriod.millis(), kSettled.seconds());
  const auto scenario = analysed_scenario(kRate, seconds);
  if (!scenario) return std::unexpected(scenario.error());
  const auto step = decode_step(*scenario);
  if (!step) return std::unexpected(step.error());
  add_example(made, *step);
  const std::int32_t own = step->own_border();
  const auto crowded = rate_at(own, seconds);
  if (!crowded) return std::unexpected(crowded.error());
  add_row(made, "fig16/rate_at_own_border", "requests/s", static_cast<double>(*crowded));
  if (auto ok = add_traces(made, system, kRate, seconds, own); !ok) return std::unexpected(ok.error());
  if (*crowded != kRate) {
    if (auto ok = add_traces(made, system, *crowded, seconds, own); !ok) return std::unexpected(ok.error());
  }
  return made;
}

}  // namespace wattle::reproduce
