// throttLL'eM with autoscaling: Figures 10 to 13.
#include <fmt/core.h>

#include <cmath>
#include <map>
#include <utility>

#include "base/histogram.h"
#include "config/locate.h"
#include "reproduce/throttllem.h"

namespace wattle::reproduce::throttllem {

namespace {

constexpr const char* kMethod =
    "Simulated: llama2-13b on one, two or four GPUs, the trace's rate swinging between a tenth of and the whole "
    "maximum load of the largest engine, in areas of four minutes (the bins in which the paper shows the trace); "
    "engines are switched at their own maximum loads (section saturation).";

struct Variant {
  const char* name;
  const char* recipe;
  std::vector<std::string> set;
  std::optional<double> saving;  ///< published, %
  std::optional<double> tokens_per_joule;
};
/// The paper's six, then ours.
const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {"triton", "triton", {}, {}, 0.69},
      {"triton-autoscale", "triton-autoscale", {}, 20.8, 0.87},
      {"throttllem-published", "throttllem-published", {}, 30.6, 0.99},
      {"throttllem-published-autoscale", "throttllem-published-autoscale", {}, 43.8, 1.23},
      {"throttllem-published-autoscale-15", "throttllem-published-autoscale", with_error(0.15), {}, {}},
      {"throttllem-published-autoscale-30", "throttllem-published-autoscale", with_error(0.30), 41.7, 1.19},
      {"throttllem", "throttllem", {}, {}, {}},
      {"throttllem-autoscale", "throttllem-autoscale", {}, {}, {}},
      {"throttllem-autoscale-15", "throttllem-autoscale-15", {}, {}, {}},
      {"throttllem-autoscale-30", "throttllem-autoscale-30", {}, {}, {}},
      {"static-sweet", "static-sweet", {}, {}, {}},
      {"static-sweet-autoscale", "static-sweet-autoscale", {}, {}, {}},
  };
  return all;
}
constexpr std::size_t kOfThePaper = 6;

Result<config::LoadedScenario> scaled_scenario(const std::vector<std::string>& set = {}) {
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  const auto scenario = config::load_scenario("throttllem-llama2-13b-autoscale", *overrides, config::project());
  if (!scenario) return std::unexpected(scenario.error());
  return experiment::with_loads(*scenario, true, config::data_dir());
}

}  // namespace

Result<Section> autoscaling() {
  Section section;
  section.source = "Figures 10 and 12";
  section.note =
      std::string(kMethod) +
      " As in the paper: triton and throttling alone run on four GPUs at the same requests; clocks from 210 MHz in "
      "steps of 15, chosen when a request is admitted and when the last lost one has left; an idle engine keeps its "
      "clock, and its draw counts; held requests do not move the clock; the clock's forecast counts the prompts that "
      "wait. Not modelled: 35 ms of scheduling and 8 ms of length prediction for each request. Batch and iterations: "
      "against triton-autoscale over the whole run (the paper: geometric mean over engines). Beside it, ours: of the "
      "clocks that keep the objectives the one of least predicted energy (recipes throttllem*); and the strongest "
      "simple baseline: the energy-optimal clock, fixed (static-sweet*).";
  const auto scenario = scaled_scenario();
  if (!scenario) return std::unexpected(scenario.error());
  std::map<std::string_view, journal::RunSummary> runs;
  int missed = 0;
  for (std::size_t i = 0; i < variants().size(); ++i) {
    const Variant& variant = variants()[i];
    const auto got = run(*scenario, variant.recipe, variant.set);
    if (!got) return std::unexpected(got.error());
    runs.emplace(variant.name, *got);
    const auto base = fmt::format("fig10/{}/", variant.name);
    const auto row = [&](const char* name, const char* unit, std::optional<double> published, double ours) {
      section.rows.push_back({base + name, unit, published, ours});
    };
    row("energy", "kJ", std::nullopt, got->energy.total.value() / 1e3);
    row("tokens_per_joule", "1/J", variant.tokens_per_joule, got->tokens_per_joule);
    row("e2e_p99", "s", std::nullopt, got->e2e.p99_ms / 1e3);
    row("tbt_mean", "ms", std::nullopt, got->tbt.mean_ms);
    row("mean_gpus", "GPUs", std::nullopt, got->mean_gpus);
    const auto& slo = scenario->scenario.slo;
    const bool late = got->e2e.p99_ms > slo.e2e->millis() || got->requests.finished < got->requests.arrived;
    if (late && i < kOfThePaper) ++missed;
    const double saved = percent_saved(got->energy.total.value(), runs.at("triton").energy.total.value());
    if (i > 0) row("saving", "%", variant.saving, saved);
    if (variant.saving) {
      section.targets.push_back({fmt::format("saving_{}", variant.name), fmt::format("{}±5 %", *variant.saving), saved,
                                 std::abs(saved - *variant.saving) <= 5.0});
    }
  }
  section.targets.push_back(
      {"objectives_missed_with_autoscaling", "0 of 6 runs", static_cast<double>(missed), missed == 0});
  const auto& theirs = runs.at("triton-autoscale");
  for (const char* name : {"throttllem-published-autoscale", "throttllem-autoscale"}) {
    const auto& ours = runs.at(name);
    const bool paper = std::string_view(name) == "throttllem-published-autoscale";
    section.rows.push_back({fmt::format("fig12/{}/batch_increase", name), "%",
                            paper ? std::optional(24.5) : std::nullopt,
                            100.0 * (mean_batch(ours) / mean_batch(theirs) - 1.0)});
    section.rows.push_back(
        {fmt::format("fig12/{}/iterations_saved", name), "%", paper ? std::optional(24.3) : std::nullopt,
         percent_saved(static_cast<double>(ours.sim.iterations), static_cast<double>(theirs.sim.iterations))});
  }
  return section;
}

Result<Section> rate_windows() {
  Section section;
  section.source = "ours: the areas of the trace that are scaled differently (workload.rate_window_s)";
  section.note =
      std::string(kMethod) +
      " The paper does not state their length, and what autoscaling saves hangs on it: here over its range, energy "
      "against triton. The evaluation has 240 s, the bins in which the paper shows its trace.";
  Plot plot{"Energy saved against triton", "s", "%", {}};
  for (const int window : {30, 60, 120, 240, 480, 900}) {
    const auto scenario = scaled_scenario({fmt::format("workload.rate_window_s={}", window)});
    if (!scenario) return std::unexpected(scenario.error());
    const auto triton = run(*scenario, "triton");
    if (!triton) return std::unexpected(triton.error());
    std::size_t line = 0;
    for (const char* recipe : {"triton-autoscale", "throttllem-published", "throttllem-published-autoscale",
                               "throttllem-autoscale", "static-sweet-autoscale"}) {
      const auto got = run(*scenario, recipe);
      if (!got) return std::unexpected(got.error());
      const double saved = percent_saved(got->energy.total.value(), triton->energy.total.value());
      section.rows.push_back({fmt::format("windows/{}s/{}/saving", window, recipe), "%", std::nullopt, saved});
      if (plot.lines.size() <= line) plot.lines.push_back({recipe, {}});
      plot.lines[line++].points.emplace_back(window, saved);
    }
  }
  section.plots = {std::move(plot)};
  return section;
}

Result<Section> load_sweep() {
  Section section;
  section.source = "Figure 13";
  section.note = std::string(kMethod) + " load: the swing's peak as a share of the largest engine's maximum load.";
  Plot power{"Mean power", "% of the maximum load", "W", {}};
  Plot latency{"p99 of E2E", "% of the maximum load", "s", {}};
  for (const int percent : {10, 25, 50, 75, 100}) {
    const auto scenario = scaled_scenario({fmt::format("workload.peak_load={}", percent / 100.0),
                                           fmt::format("workload.trough_load={}", percent / 1000.0)});
    if (!scenario) return std::unexpected(scenario.error());
    std::size_t line = 0;
    for (const char* recipe : {"triton", "triton-autoscale", "throttllem-published", "throttllem-published-autoscale",
                               "throttllem-autoscale", "static-sweet-autoscale"}) {
      const auto got = run(*scenario, recipe);
      if (!got) return std::unexpected(got.error());
      for (auto& [plot, value] :
           {std::pair(&power, got->mean_power.value()), std::pair(&latency, got->e2e.p99_ms / 1e3)}) {
        if (plot->lines.size() <= line) plot->lines.push_back({recipe, {}});
        plot->lines[line].points.emplace_back(percent, value);
      }
      ++line;
      const auto base = fmt::format("fig13/load{}/{}/", percent, recipe);
      section.rows.push_back({base + "power", "W", std::nullopt, got->mean_power.value()});
      section.rows.push_back({base + "e2e_p99", "s", std::nullopt, got->e2e.p99_ms / 1e3});
    }
  }
  section.plots = {std::move(power), std::move(latency)};
  return section;
}

namespace {

constexpr Span kBin = Span::s(120);

/// What Figure 11 draws, by time of arrival or of the sample.
class Timeline final : public journal::Sink {
 public:
  struct Bin {
    std::int64_t arrivals = 0;
    Histogram e2e_us;
    Picojoules energy;
    double clock_seconds = 0.0;  ///< MHz s, of instances that decode
    double busy_seconds = 0.0;
    std::map<std::int32_t, double> engine_seconds;  ///< by TP
  };

  explicit Timeline(const std::vector<journal::Instance>& facts) {
    for (const auto& f : facts) joined(f);
  }
  void joined(const journal::Instance& facts) override { size_[facts.id] = facts.spec.tensor_parallel; }
  void outcome(const Outcome& o) override {
    Bin& bin = at(o.request.arrival);
    ++bin.arrivals;
    if (o.fate == Fate::Finished) bin.e2e_us.add(o.e2e().ns() / 1'000);
  }
  void sample(const journal::Sample& s) override {
    Bin& bin = at(s.at);
    auto& booked = booked_[s.instance];
    bin.energy += s.energy - std::exchange(booked, s.energy);
    if (s.power.value() == 0) return;  // not running
    bin.engine_seconds[size_[s.instance]] += 1.0;
    if (s.decode_requests == 0) return;
    bin.clock_seconds += s.clock.value();
    bin.busy_seconds += 1.0;
  }
  [[nodiscard]] const std::vector<Bin>& bins() const { return bins_; }

 private:
  Bin& at(Instant when) {
    const auto i = static_cast<std::size_t>(when.ns() / kBin.ns());
    if (i >= bins_.size()) bins_.resize(i + 1);
    return bins_[i];
  }
  std::map<InstanceId, std::int32_t> size_;
  std::map<InstanceId, Picojoules> booked_;  ///< so far
  std::vector<Bin> bins_;
};

}  // namespace

Result<Section> runtime() {
  Section section;
  section.source = "Figure 11";
  section.note =
      std::string(kMethod) +
      " throttllem-published-autoscale in bins of two minutes: requests/s, engines of each size that draw power "
      "(mean number), clock of the decoding ones, power, p99 of E2E of those that arrived.";
  const auto scenario = scaled_scenario();
  if (!scenario) return std::unexpected(scenario.error());
  const auto recipe = systems::load_recipe("throttllem-published-autoscale", {}, config::project());
  if (!recipe) return std::unexpected(recipe.error());
  auto prepared = experiment::prepare_run(*scenario, *recipe, config::data_dir());
  if (!prepared) return std::unexpected(prepared.error());
  Timeline timeline(prepared->facts.instances);
  prepared->setup.sink = &timeline;
  prepared->setup.sample_period = Span::s(1);
  (void)sim::simulate(std::move(prepared->setup));
  const double seconds = kBin.seconds();
  std::map<std::string, Plot::Line> lines;
  for (std::size_t i = 0; i < timeline.bins().size(); ++i) {
    const auto& bin = timeline.bins()[i];
    const auto base = fmt::format("fig11/minute{:02}/", 2 * i);
    const auto row = [&](const std::string& name, const char* unit, double ours) {
      section.rows.push_back({base + name, unit, std::nullopt, ours});
      lines[name].name = name;
      lines[name].points.emplace_back(seconds / 60.0 * static_cast<double>(i), ours);
    };
    row("rate", "requests/s", static_cast<double>(bin.arrivals) / seconds);
    for (const std::int32_t size : {1, 2, 4}) {
      const auto found = bin.engine_seconds.find(size);
      row(fmt::format("tp{}", size), "engines", found == bin.engine_seconds.end() ? 0.0 : found->second / seconds);
    }
    row("clock", "MHz", bin.busy_seconds > 0.0 ? bin.clock_seconds / bin.busy_seconds : 0.0);
    row("power", "W", bin.energy.joules().value() / seconds);
    row("e2e_p99", "s", static_cast<double>(bin.e2e_us.quantile(0.99)) / 1e6);
  }
  section.plots = {{"Rate", "min", "requests/s", {lines["rate"]}},
                   {"Engines that draw power", "min", "engines", {lines["tp1"], lines["tp2"], lines["tp4"]}},
                   {"Clock of decoding engines", "min", "MHz", {lines["clock"]}},
                   {"Power", "min", "W", {lines["power"]}},
                   {"p99 of E2E by arrival", "min", "s", {lines["e2e_p99"]}}};
  return section;
}

}  // namespace wattle::reproduce::throttllem
