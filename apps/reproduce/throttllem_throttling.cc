// throttLL'eM without autoscaling: Figures 8, 9, 14 and 15, and our length predictors.
#include <fmt/core.h>

#include <cmath>

#include "locate.h"
#include "reproduce/throttllem.h"
#include "retail_profile.h"

namespace wattle::apps::reproduce::throttllem {

namespace {

struct Level {
  int error_percent;
  const char* recipe;
};
constexpr auto kLevels = std::to_array<Level>({{0, "throttllem"}, {15, "throttllem-15"}, {30, "throttllem-30"}});

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
      " The paper gives averages over engines in its text: tokens per joule +36.3 % at error 0 and +30.0 % at "
      "30 %, best +44.3 % (llama2-13b-tp2), which are 26.6, 23.1 and 30.7 % of energy; its \"overall\" saving "
      "of 24.7 % (best 30.7 %) lies between, so it is the mean over the error levels, too. The objective is met "
      "by all but llama2-13b-tp1.";
  constexpr double kShare = 1.0 / static_cast<double>(kEngines.size());
  std::array<double, kLevels.size()> saved{};
  std::array<double, kLevels.size()> efficiency{};
  double best = 0.0;
  double saved_overall = 0.0;
  double saved_as_published = 0.0;
  int missed = 0;
  int missed_as_published = 0;
  for (const Engine& engine : kEngines) {
    const auto scenario = right_scaled(engine);
    if (!scenario) return std::unexpected(scenario.error());
    const Slo& slo = scenario->scenario.slo;
    const auto triton = run(*scenario, "triton");
    if (!triton) return std::unexpected(triton.error());
    const auto base = fmt::format("fig8/{}/", engine.name);
    add_run(section, base + "triton/", *triton, slo);
    // As the paper describes it: its forecast knows nothing of the prompts of those who come later.
    const auto plain = run(*scenario, "throttllem", {"admission.count_pace=false"});
    if (!plain) return std::unexpected(plain.error());
    add_run(section, base + "error0_as_published/", *plain, slo);
    const double plainly = percent_saved(plain->energy.total.value(), triton->energy.total.value());
    section.rows.push_back({base + "error0_as_published/saving", "%", std::nullopt, plainly});
    saved_as_published += plainly * kShare;
    if (engine.name != "llama2-13b-tp1" && !meets(*plain, slo)) ++missed_as_published;
    for (std::size_t i = 0; i < kLevels.size(); ++i) {
      const auto ours = run(*scenario, kLevels[i].recipe);
      if (!ours) return std::unexpected(ours.error());
      const auto level = fmt::format("{}error{}/", base, kLevels[i].error_percent);
      add_run(section, level, *ours, slo);
      const double energy = percent_saved(ours->energy.total.value(), triton->energy.total.value());
      const double gain = 100.0 * (ours->tokens_per_joule / triton->tokens_per_joule - 1.0);
      const bool tp2 = engine.name == "llama2-13b-tp2" && kLevels[i].error_percent == 0;
      section.rows.push_back({level + "saving", "%", std::nullopt, energy});
      section.rows.push_back({level + "tokens_per_joule_gain", "%", tp2 ? std::optional(44.3) : std::nullopt, gain});
      saved[i] += energy * kShare;
      efficiency[i] += gain * kShare;
      best = std::max(best, energy);
      // The paper's misses on llama2-13b-tp1 are no target.
      if (engine.name != "llama2-13b-tp1" && !meets(*ours, slo)) ++missed;
    }
  }
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    const auto level = fmt::format("fig8/mean/error{}/", kLevels[i].error_percent);
    section.rows.push_back({level + "saving", "%", std::nullopt, saved[i]});
    saved_overall += saved[i] / static_cast<double>(kLevels.size());
    section.rows.push_back({level + "tokens_per_joule_gain", "%",
                            i == 0   ? std::optional(36.3)
                            : i == 2 ? std::optional(30.0)
                                     : std::nullopt,
                            efficiency[i]});
  }
  section.rows.push_back({"fig8/mean/saving", "%", 24.7, saved_overall});
  section.rows.push_back({"fig8/best/saving", "%", 30.7, best});
  section.rows.push_back({"fig8/mean/error0_as_published/saving", "%", std::nullopt, saved_as_published});
  section.rows.push_back(
      {"fig8/error0_as_published/objectives_missed", "of 4 engines", 0.0, static_cast<double>(missed_as_published)});
  section.marks = {
      {"saving_mean_without_autoscaling", "24.7±5 %", saved_overall, std::abs(saved_overall - 24.7) <= 5.0},
      {"objectives_missed_where_the_paper_meets", "0 of 12 runs", static_cast<double>(missed), missed == 0},
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
      {"oracle15", {"length.error_p95=0.15", "admission.length_inflation=0.15"}},
      {"oracle30", {"length.error_p95=0.30", "admission.length_inflation=0.30"}},
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
    const auto recipe = config::load_recipe("throttllem", *overrides, project());
    if (!recipe) return std::unexpected(recipe.error());
    auto prepared = prepare_run(*scenario, *recipe, data_dir());
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
      "are "
      "inflated, too; it describes that as throttLL'eM's own (Section IV-F), so here they are not. Both were "
      "run before that was chosen: the rows retail_inflated/ have the other one. Nor does it say what the regression "
      "is trained on; ours sees loads that low clocks do not carry.";
  const auto scenario = right_scaled(kTp4);
  if (!scenario) return std::unexpected(scenario.error());
  const auto& slo = scenario->scenario.slo;
  const auto fit = fit_retail(*scenario, 0, data_dir());
  if (!fit) return std::unexpected(fit.error());
  section.rows.push_back({"fig14/retail/r2", "-", 0.4, fit->r2});
  const auto theirs = run(*scenario, "retail");
  if (!theirs) return std::unexpected(theirs.error());
  const auto inflated = run(*scenario, "retail", {"admission.length_inflation=0.30"});
  if (!inflated) return std::unexpected(inflated.error());
  const auto ours = run(*scenario, "throttllem-30");
  if (!ours) return std::unexpected(ours.error());
  add_run(section, "fig14/retail/", *theirs, slo);
  add_run(section, "fig14/retail_inflated/", *inflated, slo);
  add_run(section, "fig14/throttllem/", *ours, slo);
  const double saved = percent_saved(ours->energy.total.value(), theirs->energy.total.value());
  section.rows.push_back({"fig14/saving", "%", 11.9, saved});
  section.rows.push_back({"fig14/saving_against_inflated", "%", std::nullopt,
                          percent_saved(ours->energy.total.value(), inflated->energy.total.value())});
  section.marks.push_back({"saving_against_retail", "11.9±5 %", saved, std::abs(saved - 11.9) <= 5.0});
  return section;
}

Result<Section> mixtral() {
  Section section;
  section.source = "Figure 15";
  section.note =
      "Simulated, on eight A10G at the paper's own peak of 1.25 requests/s and objective of 30 s. Data-sheet physics "
      "of "
      "the A10G: no measurement was fitted.";
  const auto scenario = config::load_scenario("throttllem-mixtral-8x7b-a10g", {}, project());
  if (!scenario) return std::unexpected(scenario.error());
  const auto triton = run(*scenario, "triton");
  if (!triton) return std::unexpected(triton.error());
  const auto ours = run(*scenario, "throttllem");
  if (!ours) return std::unexpected(ours.error());
  add_run(section, "fig15/triton/", *triton, scenario->scenario.slo);
  add_run(section, "fig15/throttllem/", *ours, scenario->scenario.slo);
  const double saved = percent_saved(ours->mean_power.value(), triton->mean_power.value());
  section.rows.push_back({"fig15/power_saving", "%", 35.9, saved});
  for (Row& row : section.rows) {
    if (row.id == "fig15/throttllem/e2e_p99") row.published = 28.4;
  }
  return section;
}

}  // namespace wattle::apps::reproduce::throttllem
