#include "experiment/simulate.h"

#include <sys/resource.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "calibrate/beliefs.h"
#include "config/locate.h"
#include "experiment/request_profile.h"
#include "experiment/saturation.h"
#include "systems/compose.h"

namespace wattle::experiment {

namespace {

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

/// sites.csv: every site's carbon intensity over the run, for the report; by site in the order of the summary's.
/// Nothing where it is unknown. Then, where one differs, those that plans went by. Nothing of a run at one site.
Result<void> write_sites(const std::string& directory, const std::vector<carbon::SiteRates>& sites, double end_s) {
  if (sites.size() < 2) return {};
  constexpr double kLeastStep_s = 1.0, kMostRows = 1440.0;
  std::string text = "time_s";
  for (std::size_t n = 0; n < sites.size(); ++n) text += fmt::format(",g_per_kwh_{}", n);
  const bool apart = std::ranges::any_of(sites, [](const auto& site) { return site.decisions.has_value(); });
  for (std::size_t n = 0; apart && n < sites.size(); ++n) text += fmt::format(",decision_g_per_kwh_{}", n);
  const auto append = [&text](const carbon::IntensitySeries& series, Instant at) {
    text += series.covers(at) ? fmt::format(",{}", series.at(at).value()) : ",";
  };
  const double step = std::max(kLeastStep_s, end_s / kMostRows);
  for (double at = 0.0; at <= end_s; at += step) {
    text += fmt::format("\n{:.3f}", at);
    const Instant then = Instant() + Span::from_seconds(at);
    for (const auto& site : sites) append(site.intensity, then);
    for (std::size_t n = 0; apart && n < sites.size(); ++n) append(sites[n].deciding(), then);
  }
  text += "\n";
  return write_file((std::filesystem::path(directory) / "sites.csv").string(), text);
}

/// Refuses time series without bound: a gap of years in a trace is one line of it. Reads the requests once.
Result<void> check_samples(const config::LoadedScenario& loaded, const std::string& data_dir) {
  constexpr double kMostSamples = 1e7;  // of each instance: a week at 60 ms
  const auto requests = open_source(loaded, data_dir);
  if (!requests) return std::unexpected(requests.error());
  Instant last;
  while (const auto row = (*requests)->next()) last = row->arrival;
  const double samples = (last - Instant()).seconds() / loaded.scenario.sample_period.seconds();
  if (samples <= kMostSamples) return {};
  return bad_input(loaded.origins.of("report.sample_period_s"),
                   fmt::format("report.sample_period_s is {:g} s, and requests arrive for {:.0f} s: {:.2g} samples of "
                               "each instance, above {:g}; raise it to {:.2g} s or more",
                               loaded.scenario.sample_period.seconds(), (last - Instant()).seconds(), samples,
                               kMostSamples, 1.01 * (last - Instant()).seconds() / kMostSamples));
}

/// Of one half of its workload, with the faults and the electricity of that time.
Result<PreparedRun> prepare_half(const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe,
                                 workload::Half half, const std::string& data_dir) {
  const auto whole = open_source(loaded, data_dir);
  if (!whole) return std::unexpected(whole.error());
  auto part = workload::half_of(**whole, half);
  if (!part) return std::unexpected(part.error());
  config::LoadedScenario scenario = loaded;
  scenario.scenario.begins = part->begins;
  return prepare_run(scenario, recipe, data_dir, std::move(part->source));
}

}  // namespace

Result<PreparedRun> prepare_run(const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe,
                                const std::string& data_dir, std::unique_ptr<workload::RequestSource> source) {
  const auto with = with_loads(loaded, systems::needs_max_loads(recipe.recipe), data_dir);
  if (!with) return std::unexpected(systems::of_recipe(with.error(), recipe.recipe));
  std::vector<RequestLatency> requests;
  for (std::size_t p = 0; systems::needs_request_latency(recipe.recipe) && p < with->scenario.pools.size(); ++p) {
    const auto fit = fit_request_latency(*with, p, data_dir);
    if (!fit) return std::unexpected(systems::of_recipe(fit.error(), recipe.recipe));
    requests.push_back(fit->model);
  }
  return prepare(*with, recipe, data_dir, requests, std::move(source));
}

sim::SimulationResult simulate_prepared(PreparedRun& run, const std::string& recipe) {
  for (const auto& model : run.models) model->forget_asked();  // fitting beliefs has evaluated every shape
  auto result = sim::simulate(std::move(run.setup));
  journal::RunSummary& summary = result.summary;
  for (const auto& model : run.models) {
    for (std::string& sentence : model->extrapolated()) {
      auto& all = summary.extrapolated;
      if (std::ranges::find(all, sentence) == all.end()) all.push_back(std::move(sentence));
    }
  }
  const workload::WorkloadStats read = run.source->stats();
  summary.requests.clamped_prompts = read.clamped_prompts;
  summary.requests.clamped_outputs = read.clamped_outputs;
  summary.requests.skipped_failed = read.skipped_failed;
  summary.recipe = recipe;
  summary.extrapolations = calibrate::extrapolations(run.beliefs);
  return result;
}

Result<journal::RunSummary> run_simulation(const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe,
                                           const SimulateOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  auto run = options.half ? prepare_half(loaded, recipe, *options.half, options.data_dir)
                          : prepare_run(loaded, recipe, options.data_dir);
  if (!run) return std::unexpected(run.error());
  auto& setup = run->setup;
  setup.fast_forward = options.fast_forward;
  setup.check_invariants = options.check_invariants;

  std::unique_ptr<journal::RunWriter> writer;
  if (!options.out_dir.empty()) {
    if (auto ok = check_samples(loaded, options.data_dir); !ok) return std::unexpected(ok.error());
    auto opened = journal::RunWriter::open(options.out_dir, run->facts);
    if (!opened) return std::unexpected(opened.error());
    writer = std::move(*opened);
    setup.sink = writer.get();
    setup.sample_period = loaded.scenario.sample_period;
    setup.stretches = true;
  }

  const auto sites = setup.sites;
  auto result = simulate_prepared(*run, recipe.recipe.name);
  result.summary.sim.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.summary.sim.peak_rss_bytes = peak_rss_bytes();
  if (writer) {
    if (auto closed = writer->close(result.summary, result.curves); !closed) return std::unexpected(closed.error());
    if (auto ok = write_sites(options.out_dir, sites, result.summary.sim.virtual_s); !ok) {
      return std::unexpected(ok.error());
    }
  }
  return std::move(result.summary);
}

}  // namespace wattle::experiment
