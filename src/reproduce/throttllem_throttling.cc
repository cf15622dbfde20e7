// throttLL'eM without autoscaling: Figures 8, 9, 14 and 15, and our length predictors.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "config/locate.h"
#include "experiment/request_profile.h"
#include "reproduce/throttllem.h"

namespace wattle::reproduce::throttllem {

namespace {

/// A column of the table: the paper's three, then ours.
struct Variant {
  const char* name;
  const char* recipe;
  std::vector<std::string> set;
  std::optional<double> efficiency;  ///< published, % more tokens per joule
};
const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {"published0", "throttllem-published", {}, 36.3},
      {"published15", "throttllem-published", with_error(0.15), {}},
      {"published30", "throttllem-published", with_error(0.30), 30.0},
      {"published100", "throttllem-published", with_error(1.0), {}},
      {"published0_with_reserve", "throttllem-published", {"admission.margin=0.15"}, {}},
      {"error0", "throttllem", {}, {}},
      {"error15", "throttllem-15", {}, {}},
      {"error30", "throttllem-30", {}, {}},
      {"error100", "throttllem", with_error(1.0), {}},
      {"error0_on_leave", "throttllem", {"frequency.on_leave=true"}, {}},
      {"error30_on_leave", "throttllem-30", {"frequency.on_leave=true"}, {}},
      {"fixed_sweet", "static-sweet", {}, {}},
  };
  return all;
}
constexpr std::size_t kOfThePaper = 3;

void add_run(Section& section, const std::string& base, const journal::RunSummary& run, const Slo& slo) {
  const auto row = [&](const char* name, const char* unit, double ours) {
    section.rows.push_back({base + name, unit, std::nullopt, ours});
  };
  row("energy", "kJ", run.energy.total.value() / 1e3);
  row("tokens_per_joule", "1/J", run.tokens_per_joule);
  row("e2e_p99", "s", run.e2e.p99_ms / 1e3);
  row("e2e_p99_headroom", "s", slo.e2e->seconds() - run.e2e.p99_ms / 1e3);
  row("tbt_mean", "ms", run.tbt.mean_ms);
  row("power", "W", run.mean_power.value());
  row("clock", "MHz", run.clock_mean_mhz);
  row("queue_mean", "s", run.queue.mean_ms / 1e3);
  row("ttft_mean", "s", run.ttft.mean_ms / 1e3);
  row("mean_batch", "requests", mean_batch(run));
}

bool meets(const journal::RunSummary& run, const Slo& slo) {
  return run.requests.finished == run.requests.arrived && run.e2e.p99_ms <= slo.e2e->millis() &&
         run.tbt.mean_ms <= slo.tbt->millis();
}

constexpr const char* kMethod =
    "Simulated. The trace's peak is scaled to the engine's own maximum load (section saturation), the objective is its "
    "own p99 of E2E at that load, as in the paper.";

}  // namespace

Result<Section> throttling() {
  Section section;
  section.source = "Figures 8 and 9";
  section.note =
      std::string(kMethod) +
      " The paper gives averages over engines in its text: tokens per joule +36.3 % at error 0 and +30.0 % at 30 %, "
      "best +44.3 % (llama2-13b-tp2), which are 26.6, 23.1 and 30.7 % of energy; its \"overall\" saving of 24.7 % "
      "(best 30.7 %) lies between, so it is the mean over the error levels, too. The objective is met by all but "
      "llama2-13b-tp1. published: recipe throttllem-published, the paper to the letter (the lowest clock, by model M, "
      "nothing in reserve). A forecast that knows nothing of the prompts of those who come later misses objectives "
      "here; published0_with_reserve keeps the share that would hold them. errorN: recipe throttllem, ours: of the "
      "clocks that keep the objectives the one with which what runs takes least predicted energy; on_leave: chosen "
      "again when a request ends early or late, too. The strongest simple baseline: the energy-optimal clock, fixed "
      "(fixed_sweet: recipe static-sweet). Where the lowest clock is below the energy-optimal one, lengths taken for "
      "longer bring it back up, so a worse predictor may save more (section loads).";
  struct Sums {
    double saved = 0.0;
    double efficiency = 0.0;
    int missed = 0;  ///< llama2-13b-tp1 left out: the paper's misses are no target
  };
  std::vector<Sums> sums(variants().size());
  double best = 0.0;
  for (const Engine& engine : kEngines) {
    const auto scenario = right_scaled(engine);
    if (!scenario) return std::unexpected(scenario.error());
    const Slo& slo = scenario->scenario.slo;
    const auto triton = run(*scenario, "triton");
    if (!triton) return std::unexpected(triton.error());
    const auto base = fmt::format("fig8/{}/", engine.name);
    add_run(section, base + "triton/", *triton, slo);
    for (std::size_t i = 0; i < variants().size(); ++i) {
      const Variant& variant = variants()[i];
      const auto ours = run(*scenario, variant.recipe, variant.set);
      if (!ours) return std::unexpected(ours.error());
      const auto level = fmt::format("{}{}/", base, variant.name);
      add_run(section, level, *ours, slo);
      const double energy = percent_saved(ours->energy.total.value(), triton->energy.total.value());
      const double gain = 100.0 * (ours->tokens_per_joule / triton->tokens_per_joule - 1.0);
      const bool published = engine.name == "llama2-13b-tp2" && i == 0;
      section.rows.push_back({level + "saving", "%", std::nullopt, energy});
      section.rows.push_back(
          {level + "tokens_per_joule_gain", "%", published ? std::optional(44.3) : std::nullopt, gain});
      sums[i].saved += energy / static_cast<double>(kEngines.size());
      sums[i].efficiency += gain / static_cast<double>(kEngines.size());
      if (engine.name != "llama2-13b-tp1" && !meets(*ours, slo)) ++sums[i].missed;
      if (i < kOfThePaper) best = std::max(best, energy);
    }
  }
  double saved = 0.0;
  int missed = 0;
  for (std::size_t i = 0; i < variants().size(); ++i) {
    const auto level = fmt::format("fig8/mean/{}/", variants()[i].name);
    section.rows.push_back({level + "saving", "%", std::nullopt, sums[i].saved});
    section.rows.push_back({level + "tokens_per_joule_gain", "%", variants()[i].efficiency, sums[i].efficiency});
    section.rows.push_back({level + "objectives_missed", "of 4 engines",
                            i < kOfThePaper ? std::optional(0.0) : std::nullopt, static_cast<double>(sums[i].missed)});
    if (i >= kOfThePaper) continue;
    saved += sums[i].saved / static_cast<double>(kOfThePaper);
    missed += sums[i].missed;
  }
  section.rows.push_back({"fig8/mean/saving", "%", 24.7, saved});
  section.rows.push_back({"fig8/best/saving", "%", 30.7, best});
  // The loss from a worse predictor: the smaller of two steps of error.
  const auto of = [&](std::string_view name) -> const Sums& {
    return sums[static_cast<std::size_t>(std::ranges::find(variants(), name, &Variant::name) - variants().begin())];
  };
  const auto cost_of_error = [&](const char* exact, const char* worse, const char* worst) {
    return std::min(of(exact).saved - of(worse).saved, of(worse).saved - of(worst).saved);
  };
  constexpr const char* kTrend = "> 0 points from 0 to 30 % and from 30 to 100 % error, the lesser";
  const double ours = cost_of_error("error0", "error30", "error100");
  const double published = cost_of_error("published0", "published30", "published100");
  int ours_missed = 0;
  for (const auto name : {"error0", "error15", "error30"}) ours_missed += of(name).missed;
  section.targets = {
      {"worse_predictor_saves_less", kTrend, ours, ours > 0.0},
      {"worse_predictor_saves_less_published", kTrend, published, published > 0.0},
      {"saving_mean_without_autoscaling", "24.7±5 %", saved, std::abs(saved - 24.7) <= 5.0},
      {"objectives_missed_where_the_paper_meets_published", "0 of 12 runs", static_cast<double>(missed), missed == 0},
      {"objectives_missed_where_the_paper_meets", "0 of 12 runs, throttllem", static_cast<double>(ours_missed),
       ours_missed == 0},
  };
  return section;
}

Result<Section> lengths() {
  struct Predictor {
    const char* name;
    std::vector<std::string> set;
  };
  const std::vector<Predictor> predictors{
      {"oracle", {}},
      {"oracle15", with_error(0.15)},
      {"oracle30", with_error(0.30)},
      {"classes50", {"length.source=classes"}},
      {"classes90", {"length.source=classes", "length.quantile=0.9"}},
      {"learned50", {"length.source=learned"}},
      {"learned90", {"length.source=learned", "length.quantile=0.9"}},
      {"learned50_residual", {"length.source=learned", "admission.overrun=residual"}},
      {"none", {"length.source=none"}},
  };
  Section section;
  section.source = "ours";
  section.note = std::string(kMethod) +
                 " llama2-13b-tp4. score: mean pinball loss (tokens) of the predictor's quantile over about the last "
                 "thousand answers; constant: the same quantile of all lengths seen.";
  const auto scenario = right_scaled(kTp4);
  if (!scenario) return std::unexpected(scenario.error());
  const auto triton = run(*scenario, "triton");
  if (!triton) return std::unexpected(triton.error());
  for (const auto& predictor : predictors) {
    const auto overrides = config::parse_overrides(predictor.set);
    if (!overrides) return std::unexpected(overrides.error());
    const auto recipe = systems::load_recipe("throttllem", *overrides, config::project());
    if (!recipe) return std::unexpected(recipe.error());
    auto prepared = experiment::prepare_run(*scenario, *recipe, config::data_dir());
    if (!prepared) return std::unexpected(prepared.error());
    const auto result = sim::simulate(std::move(prepared->setup));
    const auto base = fmt::format("lengths/{}/", predictor.name);
    const auto row = [&](const char* name, const char* unit, double ours) {
      section.rows.push_back({base + name, unit, std::nullopt, ours});
    };
    row("saving", "%", percent_saved(result.summary.energy.total.value(), triton->energy.total.value()));
    row("e2e_p99", "s", result.summary.e2e.p99_ms / 1e3);
    row("e2e_attainment", "%", 100.0 * result.summary.slo.e2e);
    if (!result.length) continue;
    row("score", "tokens", result.length->score().predictor);
    row("score_constant", "tokens", result.length->score().constant);
    row("fallen_back", "predictions", static_cast<double>(result.length->counts().fallen_back));
  }
  return section;
}

Result<Section> retail() {
  Section section;
  section.source = "Figure 14";
  section.note =
      std::string(kMethod) +
      " llama2-13b-tp4, lengths with 30 % error for both. The paper does not say whether ReTail's predicted lengths "
      "are inflated, too; it describes that as throttLL'eM's own (Section IV-F), so here they are not. Both were run "
      "before that was chosen: the rows retail_inflated/ have the other one. Nor does it say what the regression is "
      "trained on; ours sees loads that low clocks do not carry. ReTail keeps 15 % of the objective in reserve, the "
      "published throttLL'eM none, ours (throttllem) what its recipe says.";
  const auto scenario = right_scaled(kTp4);
  if (!scenario) return std::unexpected(scenario.error());
  const auto& slo = scenario->scenario.slo;
  const auto fit = experiment::fit_request_latency(*scenario, 0, config::data_dir());
  if (!fit) return std::unexpected(fit.error());
  section.rows.push_back({"fig14/retail/r2", "-", 0.4, fit->r2});
  const auto theirs = run(*scenario, "retail");
  if (!theirs) return std::unexpected(theirs.error());
  const auto inflated = run(*scenario, "retail", {"admission.length_inflation=0.30"});
  if (!inflated) return std::unexpected(inflated.error());
  const auto published = run(*scenario, "throttllem-published", with_error(0.30));
  if (!published) return std::unexpected(published.error());
  const auto ours = run(*scenario, "throttllem-30");
  if (!ours) return std::unexpected(ours.error());
  add_run(section, "fig14/retail/", *theirs, slo);
  add_run(section, "fig14/retail_inflated/", *inflated, slo);
  add_run(section, "fig14/throttllem-published/", *published, slo);
  add_run(section, "fig14/throttllem/", *ours, slo);
  const auto fixed = run(*scenario, "static-sweet");
  if (!fixed) return std::unexpected(fixed.error());
  add_run(section, "fig14/static-sweet/", *fixed, slo);
  const double saved = percent_saved(published->energy.total.value(), theirs->energy.total.value());
  section.rows.push_back({"fig14/saving", "%", 11.9, saved});
  section.rows.push_back({"fig14/saving_against_inflated", "%", std::nullopt,
                          percent_saved(published->energy.total.value(), inflated->energy.total.value())});
  section.rows.push_back({"fig14/saving_of_ours", "%", std::nullopt,
                          percent_saved(ours->energy.total.value(), theirs->energy.total.value())});
  section.targets.push_back({"saving_against_retail", "11.9±5 %", saved, std::abs(saved - 11.9) <= 5.0});
  return section;
}

Result<Section> mixtral() {
  Section section;
  section.source = "Figure 15";
  section.note =
      "Simulated, on eight A10G at the paper's own peak of 1.25 requests/s and objective of 30 s. Data-sheet physics "
      "of the A10G: no measurement was fitted.";
  const auto scenario = config::load_scenario("throttllem-mixtral-8x7b-a10g", {}, config::project());
  if (!scenario) return std::unexpected(scenario.error());
  const auto triton = run(*scenario, "triton");
  if (!triton) return std::unexpected(triton.error());
  const auto published = run(*scenario, "throttllem-published");
  if (!published) return std::unexpected(published.error());
  const auto ours = run(*scenario, "throttllem");
  if (!ours) return std::unexpected(ours.error());
  add_run(section, "fig15/triton/", *triton, scenario->scenario.slo);
  add_run(section, "fig15/throttllem-published/", *published, scenario->scenario.slo);
  add_run(section, "fig15/throttllem/", *ours, scenario->scenario.slo);
  const auto fixed = run(*scenario, "static-sweet");
  if (!fixed) return std::unexpected(fixed.error());
  add_run(section, "fig15/static-sweet/", *fixed, scenario->scenario.slo);
  const double saved = percent_saved(published->mean_power.value(), triton->mean_power.value());
  section.rows.push_back({"fig15/power_saving", "%", 35.9, saved});
  for (Row& row : section.rows) {
    if (row.id == "fig15/throttllem-published/e2e_p99") row.published = 28.4;
  }
  return section;
}

}  // namespace wattle::reproduce::throttllem
