#include "experiment/match_attainment.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "config/locate.h"
#include "report/saving.h"
#include "systems/reserve.h"

namespace wattle::experiment {

namespace {

constexpr int kLevels = 20;
constexpr int kPasses = 2;

/// A run of the first half: of each key which value.
struct Trial {
  std::vector<std::size_t> chosen;
  double short_by = 0.0;  ///< of the baseline
  journal::RunSummary run;
};

/// Runs the first half with chosen values of the keys.
class Trials {
 public:
  Trials(const config::LoadedScenario& scenario, std::string recipe, std::vector<config::Override> overrides,
         journal::Attainment baseline, std::string data_dir)
      : scenario_(scenario),
        recipe_(std::move(recipe)),
        overrides_(std::move(overrides)),
        baseline_(baseline),
        data_dir_(std::move(data_dir)) {}

  [[nodiscard]] Result<systems::LoadedRecipe> load(const std::vector<systems::Reserve>& keys,
                                                   const std::vector<std::size_t>& chosen) const {
    auto set = overrides_;
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const std::string& value = keys[k].values[chosen[k]];
      if (!value.empty()) set.push_back({keys[k].key, value});
    }
    return systems::load_recipe(recipe_, set, config::project(), systems::Unfit::Ignored);
  }

  /// All keys rise together until the baseline's attainment is reached; then each in turn falls to its value of least
  /// energy. Attainment need not rise with the reserve (requests that are held too long are late, too), so the search
  /// goes up from below, without bisection.
  [[nodiscard]] Result<Trial> search(const std::vector<systems::Reserve>& keys) {
    std::optional<Trial> best;
    for (int level = 0; level <= kLevels; ++level) {
      std::vector<std::size_t> chosen;
      for (const auto& key : keys)
        chosen.push_back((key.values.size() - 1) * static_cast<std::size_t>(level) / kLevels);
      auto trial = run(keys, std::move(chosen));
      if (!trial) return trial;
      if (!best || trial->short_by < best->short_by) best = std::move(*trial);
      if (best->short_by <= kAttainmentSlack || keys.empty()) break;
    }
    if (best->short_by > kAttainmentSlack) return std::move(*best);
    for (int pass = 0; pass < kPasses; ++pass) {
      for (std::size_t k = 0; k < keys.size(); ++k) {
        if (auto ok = lower(keys, k, *best); !ok) return std::unexpected(ok.error());
      }
    }
    return std::move(*best);
  }

  int runs = 0;

 private:
  /// Takes the value of key `k` that uses least energy of those up to the one in `best` that keep the baseline: of
  /// kLevels of them, then ever nearer to the best.
  [[nodiscard]] Result<void> lower(const std::vector<systems::Reserve>& keys, std::size_t k, Trial& best) {
    const auto attempt = [&](std::size_t value) -> Result<void> {
      auto chosen = best.chosen;
      chosen[k] = value;
      auto trial = run(keys, std::move(chosen));
      if (!trial) return std::unexpected(trial.error());
      if (trial->short_by <= kAttainmentSlack && report::saved_against(trial->run, best.run) > 0.0)
        best = std::move(*trial);
      return {};
    };
    const std::size_t from = best.chosen[k];
    for (std::size_t value = 0, step = std::max<std::size_t>(1, from / kLevels); value < from; value += step) {
      if (auto ok = attempt(value); !ok) return ok;
    }
    for (std::size_t step = from / kLevels / 2; step > 0; step /= 2) {
      const std::size_t middle = best.chosen[k];
      if (middle >= step) {
        if (auto ok = attempt(middle - step); !ok) return ok;
      }
      if (auto ok = attempt(std::min(middle + step, from)); !ok) return ok;
    }
    return {};
  }

  [[nodiscard]] Result<Trial> run(const std::vector<systems::Reserve>& keys, std::vector<std::size_t> chosen) {
    const auto loaded = load(keys, chosen);
    if (!loaded) return std::unexpected(loaded.error());
    SimulateOptions options;
    options.data_dir = data_dir_;
    auto run = run_half(scenario_, *loaded, workload::Half::First, options);
    if (!run) return std::unexpected(run.error());
    ++runs;
    const double short_by = short_of(run->slo, baseline_);
    return Trial{std::move(chosen), short_by, std::move(*run)};
  }

  const config::LoadedScenario& scenario_;
  std::string recipe_;
  std::vector<config::Override> overrides_;
  journal::Attainment baseline_;
  std::string data_dir_;
};

}  // namespace

double short_of(const journal::Attainment& ours, const journal::Attainment& baseline) {
  // Objectives that are not stated, and gaps of a run without gaps, are not compared.
  using journal::Attainment;
  const auto short_by = [&](double Attainment::*share) {
    const double points = baseline.*share - ours.*share;
    return std::isnan(points) ? 0.0 : points;
  };
  return std::max({short_by(&Attainment::ttft), short_by(&Attainment::itl), short_by(&Attainment::tbt),
                   short_by(&Attainment::e2e), short_by(&Attainment::all)});
}

Result<journal::RunSummary> run_half(const config::LoadedScenario& scenario, const systems::LoadedRecipe& recipe,
                                     workload::Half half, const SimulateOptions& options) {
  SimulateOptions of_half = options;
  of_half.half = half;
  return run_simulation(scenario, recipe, of_half);
}

Result<Matched> match_attainment(const config::LoadedScenario& scenario, const std::string& recipe,
                                 const std::vector<config::Override>& overrides, const journal::Attainment& baseline,
                                 const SimulateOptions& options) {
  Trials trials(scenario, recipe, overrides, baseline, options.data_dir);
  const auto own = trials.load({}, {});
  if (!own) return std::unexpected(own.error());
  const auto prepared = prepare_run(scenario, *own, options.data_dir);
  if (!prepared) return std::unexpected(prepared.error());
  std::vector<std::shared_ptr<const InstanceSpec>> fleet;
  for (const auto& instance : prepared->setup.instances) fleet.push_back(instance.spec);
  const auto keys = systems::reserves_of(own->recipe, fleet);

  auto found = trials.search(keys);
  if (!found) return std::unexpected(found.error());
  Matched matched;
  matched.settable = !keys.empty();
  matched.kept = found->short_by <= kAttainmentSlack;
  matched.first_half = found->run.slo;
  const auto& chosen = found->chosen;
  matched.runs = trials.runs;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const std::string& value = keys[k].values[chosen[k]];
    if (!value.empty()) matched.reserve.emplace_back(keys[k].key, value);
  }
  const auto loaded = trials.load(keys, chosen);
  if (!loaded) return std::unexpected(loaded.error());
  auto second = run_half(scenario, *loaded, workload::Half::Second, options);
  if (!second) return std::unexpected(second.error());
  matched.second_half = std::move(*second);
  return matched;
}

}  // namespace wattle::experiment
