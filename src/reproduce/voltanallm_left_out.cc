// VoltanaLLM's models, each simulated with constants that were chosen, by a rule, on the other models' points.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "reproduce/voltanallm_points.h"
#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

namespace {

/// One of the framework's CPU times, or of what else a hand set in the scenario, with the values that the rule tries,
/// the first of them without anyone's choice.
struct Searched {
  const char* name;
  const char* unit;
  const char* key;
  std::array<double, 5> values;
};
constexpr std::array kSearched{
    Searched{"cpu_per_step", "ms", "engine.step_gap_ms", {0.0, 4.0, 8.0, 12.0, 16.0}},
    Searched{"cpu_per_prompt", "ms", "engine.prompt_gap_ms", {0.0, 2.5, 5.0, 7.5, 10.0}},
    Searched{"cpu_per_decoding_request", "ms", "engine.decode_gap_ms", {0.0, 0.0125, 0.025, 0.0375, 0.05}},
    Searched{"handoff_steps", "steps", "link.handoff_steps", {0.0, 1.0, 2.0, 4.0, 8.0}},
    Searched{"decode_attention_efficiency",
             "share",
             "engine.decode_attention_efficiency",
             {kKernelAttention, 0.82, 0.87, 0.92, 1.0}}};
using Chosen = std::array<double, kSearched.size()>;

constexpr int kPasses = 2;

PointRuns with(const Chosen& chosen, const PointRuns& runs) {
  PointRuns set = runs;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    set.scenario.push_back(fmt::format("{}={}", kSearched[i].key, chosen[i]));
  }
  return set;
}

Result<PointErrors> errors_with(const std::vector<Point>& points, const PointRuns& runs) {
  const auto ours = simulate_points(points, runs);
  if (!ours) return std::unexpected(ours.error());
  PointErrors all;
  for (const auto& [model, errors] : errors_of(points, *ours)) all.merge(errors);
  return all;
}

/// Mean errors of energy (%), saving and attainment (points), added up.
double cost(const PointErrors& errors) {
  return 100.0 * mean_size(errors.energies) + mean_size(errors.savings) + mean_size(errors.attainments);
}

Chosen of_nobody() {
  Chosen values{};
  std::ranges::transform(kSearched, values.begin(), [](const Searched& s) { return s.values.front(); });
  return values;
}

/// Starts from the neutral constants and sets one after the other to the value of least cost on `points`, in two
/// passes.
Result<Chosen> choose(const std::vector<Point>& points, const PointRuns& runs) {
  Chosen chosen = of_nobody();
  double least = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < kPasses; ++pass) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      Chosen tried = chosen;
      for (const double value : kSearched[i].values) {
        if (std::isfinite(least) && value == chosen[i]) continue;
        tried[i] = value;
        const auto errors = errors_with(points, with(tried, runs));
        if (!errors) return std::unexpected(errors.error());
        if (cost(*errors) >= least) continue;
        least = cost(*errors);
        chosen[i] = value;
      }
    }
  }
  return chosen;
}

void add_errors(Section& made, const std::string& base, const PointErrors& errors) {
  add_row(made, base + "energy_mean_error", "%", 100.0 * mean_size(errors.energies));
  add_row(made, base + "saving_mean_difference", "points", mean_size(errors.savings));
  add_row(made, base + "saving_worst_difference", "points", worst_size(errors.savings));
  add_row(made, base + "attainment_mean_difference", "points", mean_size(errors.attainments));
}

bool every_third_rate(const Point& point) { return point.rate % 20 == 0 || point.rate % 15 == 0; }

}  // namespace

static Result<Section> leave_each_out(double seconds) {
  const auto published = published_points();
  if (!published) return std::unexpected(published.error());
  const std::vector<Point>& points = published->points;
  std::set<const PublishedModel*> models;
  for (const Point& point : points) models.insert(point.model);
  Section made;
  made.source = "Figure 13, digitised";
  made.note =
      "Simulated, one draw. Per model: the CPU times of a step, a prompt and a decoding request, handoff_steps and the "
      "pace of decode attention, chosen on the other models' points (every third rate), from nobody's choice and one "
      "after the other, of five values each, so that the mean errors of energy, saving and attainment add up to least; "
      "then this model's points with them, and (neutral) with nobody's choice. Targets are of the worst model. The "
      "values were listed knowing what a hand had set. Not chosen again: EcoFreq's aim (the published client's) and "
      "the A100's power (fitted on 8 static energies of Llama-3.1-8B).";
  const PointRuns one{.draws = 1, .seconds = seconds};
  double energy = 0.0;
  double saving = 0.0;
  double worst = 0.0;
  double attainment = 0.0;
  bool any = false;
  for (const PublishedModel* model : models) {
    std::vector<Point> of_others = points;
    std::erase_if(of_others, [&](const Point& p) { return p.model == model || !every_third_rate(p); });
    if (of_others.empty()) continue;  // the only model at hand
    any = true;
    const auto chosen = choose(of_others, one);
    if (!chosen) return std::unexpected(chosen.error());
    std::vector<Point> own = points;
    std::erase_if(own, [&](const Point& p) { return p.model != model; });
    const auto base = fmt::format("left_out/{}/", model->llm);
    for (std::size_t i = 0; i < kSearched.size(); ++i) {
      add_row(made, base + kSearched[i].name, kSearched[i].unit, (*chosen)[i]);
    }
    const auto errors = errors_with(own, with(*chosen, one));
    if (!errors) return std::unexpected(errors.error());
    add_errors(made, base, *errors);
    const auto neutral = errors_with(own, with(of_nobody(), one));
    if (!neutral) return std::unexpected(neutral.error());
    add_errors(made, base + "neutral/", *neutral);
    energy = std::max(energy, 100.0 * mean_size(errors->energies));
    saving = std::max(saving, mean_size(errors->savings));
    worst = std::max(worst, worst_size(errors->savings));
    attainment = std::max(attainment, mean_size(errors->attainments));
  }
  if (!any) return made;
  made.targets = {{"left_out_energy_mean_error", "<= 8 %, every model", energy, energy <= 8.0},
                  {"left_out_saving_mean_difference", "<= 4 points, every model", saving, saving <= 4.0},
                  {"left_out_saving_worst_difference", "<= 8 points, every model", worst, worst <= 8.0},
                  {"left_out_attainment_mean_difference", "<= 6 points where published above 90 %, every model",
                   attainment, attainment <= 6.0}};
  return made;
}

Result<Section> voltanallm_left_out() { return leave_each_out(kRunSeconds); }

Result<Section> left_out(const System&, double seconds) { return leave_each_out(seconds); }

}  // namespace wattle::reproduce
