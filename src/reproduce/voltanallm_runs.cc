#include "reproduce/voltanallm_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "config/locate.h"
#include "experiment/simulate.h"

namespace wattle::reproduce {

namespace {

constexpr std::int64_t kEveryRate[]{50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100};
constexpr std::int64_t kSomeRates[]{75, 90};

class SampleKeeper final : public journal::Sink {
 public:
  void sample(const journal::Sample& sample) override { kept.push_back(sample); }
  std::vector<journal::Sample> kept;
};

Result<systems::LoadedRecipe> load(const Controlled& how) {
  std::vector<std::string> set{fmt::format("frequency.margin={}", 1.0 - kAim), kPrefillRouting};
  set.insert(set.end(), how.set.begin(), how.set.end());
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return systems::load_recipe(how.recipe, *overrides, config::project(), systems::Unfit::Ignored);
}

}  // namespace

constinit const System kVoltana{"voltanallm", "voltanallm", "voltanallm-5l", kEveryRate};
constinit const System kGreenServe{"greenserve", "greenserve", "greenserve-5l", kSomeRates};

Result<config::LoadedScenario> analysed_scenario(std::int64_t rate, double seconds, std::vector<std::string> more) {
  more.insert(more.begin(), fmt::format("workload.requests={:.0f}", static_cast<double>(rate) * seconds));
  return published_scenario(kLlama, kShareGpt, rate, more);
}

Result<journal::RunSummary> serve(const config::LoadedScenario& scenario, const Controlled& how) {
  const auto recipe = load(how);
  if (!recipe) return std::unexpected(recipe.error());
  return experiment::run_simulation(scenario, *recipe, {});
}

Result<Sampled> serve_sampled(const config::LoadedScenario& scenario, const Controlled& how, Span period,
                              std::unique_ptr<workload::RequestSource> source) {
  const auto recipe = load(how);
  if (!recipe) return std::unexpected(recipe.error());
  auto run = experiment::prepare_run(scenario, *recipe, config::data_dir());
  if (!run) return std::unexpected(run.error());
  SampleKeeper keeper;
  run->setup.sink = &keeper;
  run->setup.sample_period = period;
  if (source) run->setup.source = source.get();
  auto result = sim::simulate(std::move(run->setup));
  return Sampled{std::move(result.summary), std::move(keeper.kept)};
}

void add_row(Section& section, std::string id, const char* unit, double ours) {
  section.rows.push_back({std::move(id), unit, std::nullopt, ours});
}

void add_attainment(Section& section, const std::string& base, const journal::RunSummary& run) {
  add_row(section, base + "ttft_attainment", "%", 100.0 * run.slo.ttft);
  add_row(section, base + "itl_attainment", "%", 100.0 * run.slo.tbt);
}

void add_phases(Section& section, const std::string& base, const journal::RunSummary& run) {
  add_row(section, base + "prefill_energy", "J", run.energy.prefill.value());
  add_row(section, base + "decode_energy", "J", run.energy.decode.value());
  add_row(section, base + "idle_energy", "J", run.energy.idle.value());
  add_attainment(section, base, run);
}

void PlotMaker::add(std::string_view line, double x, double y) {
  auto found = std::ranges::find(plot_.lines, line, &Plot::Line::name);
  if (found == plot_.lines.end()) {
    plot_.lines.push_back({std::string(line), {}});
    found = plot_.lines.end() - 1;
  }
  found->points.emplace_back(x, y);
}

}  // namespace wattle::reproduce
