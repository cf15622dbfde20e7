#include "reproduce/freesh_runs.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/file.h"
#include "base/quantile.h"
#include "base/scratch_folder.h"
#include "config/locate.h"
#include "experiment/simulate.h"
#include "reproduce/freesh_load.h"
#include "reproduce/freesh_power.h"
#include "sim/simulation.h"
#include "systems/recipe.h"

namespace wattle::reproduce::freesh {

namespace {

constexpr std::array<std::size_t, 2> kEpisodes{24, 25};  ///< E1, E2
constexpr double kSlot_s = 300.0;
constexpr double kJoulesPerWh = 3600.0;

/// Which of the two a recipe sorts by, from 0: the release's plans of both episodes use the second one.
std::size_t partition_of(std::string_view recipe) { return recipe == "freesh-wo-multiparti" ? 0 : 1; }

/// Any request may go to any worker.
bool pooled(std::string_view recipe) {
  return recipe == "freesh-baseline" || recipe == "freesh-cleanest" || recipe == "freesh-ours";
}

/// The release's H100s draw 243 to 327 W each at their ratings: the card of 350 W, not that of 700 W.
std::string spec_name(std::string_view kind) { return kind == "A100" ? "a100-80g" : "h100-pcie"; }

/// Sites and GPUs of the release; every mode wherever there are GPUs for it.
std::string fleet_of(const plan::PoolsProblem& problem) {
  std::string text;
  for (const auto& site : problem.sites) {
    for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
      if (site.gpus[k] == 0) continue;
      text += fmt::format("[[node]]\nsite = \"{}\"\ngpu = \"{}\"\ngpus = {}\n", site.name, spec_name(problem.kinds[k]),
                          site.gpus[k]);
    }
    for (const auto& mode : problem.modes) {
      const auto kind = static_cast<std::size_t>(std::ranges::max_element(mode.gpus) - mode.gpus.begin());
      if (site.gpus[kind] < mode.gpus[kind]) continue;
      text += fmt::format("[[fleet]]\ngpu = \"{}\"\ntensor_parallel = {}\ncount = {}\nsite = \"{}\"\nweight = {}\n",
                          spec_name(problem.kinds[kind]), mode.gpus[kind],
                          text.find("count") == std::string::npos ? 1 : 0, site.name, mode.gpus[kind]);
    }
  }
  return text;
}

std::string scenario_of(const std::vector<plan::PoolsProblem>& episodes, std::size_t partition, const FleetRun& run) {
  const auto& problem = episodes.front();
  const Cuts cuts = cuts_of(partition);
  // Two A100 with 80 GB hold the 70B model only with most of their memory. Lat: the release's profile of Table 5.
  std::string text = fmt::format(
      "name = \"freesh\"\nllm = \"llama-3-70b\"\n[engine]\ngpu_memory_utilization = 0.96\nactivation_gb_per_gpu = 1\n"
      "[workload]\ntrace = \"requests.csv\"\nmax_prompt_tokens = 4096\nmax_output_tokens = 2048\n[spawn]\nload_s = "
      "{}\nwarm_s = 0\nbeside_draining = {}\n[fairness]\nttft_ms = 140\ntbt_ms = 30\n[classes]\nprompt_below = "
      "[{}]\noutput_below = "
      "[{}]\n",
      run.start_s, run.beside, cuts.prompt, cuts.answer);
  for (const auto& type : problem.partitions[partition].types) {
    text += fmt::format("[[class]]\nname = \"{}\"\nttft_ms = {}\ntbt_ms = {}\n", type.name, type.ttft_limit.millis(),
                        type.tbt_limit.millis());
  }
  for (const auto& site : problem.sites) {
    text += fmt::format(
        "[[site]]\nname = \"{0}\"\nstart = \"2024-01-01 00:00\"\nintensity_file = \"site_{0}.csv\"\n"
        "intensity_column = \"g_per_kwh\"\n",
        site.name);
  }
  return text + fleet_of(problem);
}

void to_first_site(plan::PoolsProblem& problem) {
  for (std::size_t n = 1; n < problem.sites.size(); ++n) {
    for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
      problem.sites.front().gpus[k] += std::exchange(problem.sites[n].gpus[k], 0);
    }
  }
}

std::string time_of(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  return fmt::format("2024-01-01 {:02}:{:02}:{:010.7f}", whole / 3600, whole / 60 % 60,
                     seconds - static_cast<double>(whole / 60 * 60));
}

Result<void> write_scenario(const ScratchFolder& folder, const std::vector<plan::PoolsProblem>& episodes,
                            std::size_t partition, const FleetRun& run, const std::vector<workload::TraceRow>& rows) {
  std::string trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (const auto& row : rows) {
    trace +=
        fmt::format("{},{},{}\n", time_of((row.arrival - Instant()).seconds()), row.prompt_tokens, row.output_tokens);
  }
  if (auto ok = write_file(folder.file("requests.csv"), trace); !ok) return ok;
  for (std::size_t n = 0; n < episodes.front().sites.size(); ++n) {
    std::string series = "datetime_utc,g_per_kwh\n";
    double at = 0.0;
    for (const auto& episode : episodes) {
      for (const GramsPerKwh g : episode.sites[n].intensity) {
        series += fmt::format("{:.19},{}\n", time_of(at), g.value());
        at += kSlot_s;
      }
    }
    const auto name = fmt::format("site_{}.csv", episodes.front().sites[n].name);
    if (auto ok = write_file(folder.file(name), series); !ok) return ok;
  }
  return write_file(folder.file("scenario.toml"), scenario_of(episodes, partition, run));
}

double mean(const std::vector<double>& all) {
  return all.empty() ? 0.0 : std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

/// Where finished requests spent their time, and what workers drew.
class Times final : public journal::Sink {
 public:
  Times(std::size_t classes, RatedPower& power) : by_class_(classes + 1), power_(power) {}
  void joined(const journal::Instance& instance) override { power_.joined(instance); }
  void decision(const journal::DecisionRecord& record) override { power_.decision(record); }
  void sample(const journal::Sample& sample) override { power_.sample(sample); }
  void outcome(const Outcome& outcome) override {
    if (outcome.fate != Fate::Finished) return;
    const auto c = static_cast<std::size_t>(std::max(outcome.request.request_class.value(), 0));
    const auto take = [&](Of& of) {
      of.held_s.push_back((outcome.dispatched - outcome.request.arrival).seconds());
      of.ttft_ms.push_back((outcome.first_token - outcome.dispatched).seconds() * 1e3);
      of.e2e_s.push_back(outcome.e2e().seconds());
      if (outcome.output_tokens > 1) of.tbt_ms.push_back(outcome.tbt().seconds() * 1e3);
    };
    take(by_class_.front());
    if (c + 1 < by_class_.size()) take(by_class_[c + 1]);
  }
  /// Of all, then by class.
  [[nodiscard]] std::vector<Waits> waits() {
    std::vector<Waits> all;
    for (Of& of : by_class_) {
      all.push_back({static_cast<double>(of.e2e_s.size()), mean(of.held_s), quantile(of.held_s, 0.99), mean(of.ttft_ms),
                     quantile(of.ttft_ms, 0.5), quantile(of.ttft_ms, 0.99), mean(of.e2e_s), mean(of.tbt_ms)});
    }
    return all;
  }

 private:
  struct Of {
    std::vector<double> held_s, ttft_ms, e2e_s, tbt_ms;
  };
  std::vector<Of> by_class_;
  RatedPower& power_;
};

Served served_of(const journal::RunSummary& run) {
  Served s;
  s.energy_wh = run.energy.total.value() / kJoulesPerWh;
  s.carbon_kg = run.carbon.value() / 1e3;
  s.requests = static_cast<double>(run.requests.arrived);
  s.finished = static_cast<double>(run.requests.finished);
  s.duration_s = run.sim.virtual_s;
  s.gpus = run.mean_gpus;
  s.e2e_s = run.e2e.mean_ms / 1e3;
  s.e2e_p50_s = run.e2e.p50_ms / 1e3;
  s.ttft_ms = run.ttft.mean_ms;
  s.tbt_ms = run.tbt.mean_ms;
  s.tbt_p50_ms = run.tbt.p50_ms;
  s.ttft_p99_ms = run.ttft.p99_ms;
  s.tbt_p99_ms = run.tbt.p99_ms;
  s.violations = run.fairness.violation_rate;
  s.jain = run.fairness.jain;
  s.clock_mhz = run.clock_mean_mhz;
  return s;
}

/// What the planner expects: the release's peaks from the first episode on, of the recipe's partition.
std::vector<std::string> expecting(std::string_view recipe) {
  return {fmt::format("scaling.demand=LLM_Serving_FREESH/peak_qps_partition{}.csv", partition_of(recipe) + 1),
          fmt::format("scaling.demand_from={}", kEpisodes.front() * kSlotsPerWindow),
          fmt::format("scaling.beta={}", kBeta), "scaling.emissions=given"};
}

Result<systems::LoadedRecipe> recipe_of(const std::string& name, const std::vector<std::string>& set) {
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return systems::load_recipe(name, *overrides, config::project(), systems::Unfit::Ignored);
}

}  // namespace

Result<Served> run_fleet(const plan::PoolsData& data, const FleetRun& run) {
  const std::size_t partition = run.requests_of.value_or(partition_of(run.recipe));
  std::vector<plan::PoolsProblem> episodes;
  for (const std::size_t w : kEpisodes) {
    auto& episode = episodes.emplace_back(data.window(w * kSlotsPerWindow, kSlotsPerWindow, kBeta));
    if (run.all_at_first_site) to_first_site(episode);
  }
  const auto rows = draw_load(data, partition, {kEpisodes.begin(), kEpisodes.end()}, run.scale, run.seed);
  if (!rows) return std::unexpected(rows.error());
  const ScratchFolder folder;
  if (auto ok = write_scenario(folder, episodes, partition, run, *rows); !ok) return std::unexpected(ok.error());
  const auto loaded = config::load_scenario(folder.file("scenario.toml"), {}, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  auto set = run.set;
  if (run.given) {
    const auto expected = expecting(run.recipe);
    set.insert(set.end(), expected.begin(), expected.end());
  } else if (run.scale != 1.0) {
    set.push_back(fmt::format("scaling.beta={}", run.scale));
  }
  const auto recipe = recipe_of(run.recipe, set);
  if (!recipe) return std::unexpected(recipe.error());
  auto prepared = experiment::prepare_run(*loaded, *recipe, config::data_dir());
  if (!prepared) return std::unexpected(prepared.error());
  const Instant end =
      Instant() + Span::from_seconds(kSlot_s) * static_cast<std::int64_t>(kEpisodes.size() * kSlotsPerWindow);
  RatedPower power(episodes.front(), partition_of(run.recipe), pooled(run.recipe), prepared->setup.sites, end);
  for (const auto& instance : prepared->facts.instances) power.joined(instance);
  Times times(episodes.front().partitions[partition].types.size(), power);
  prepared->setup.sink = &times;
  prepared->setup.sample_period = Span::s(1);
  Served served = served_of(sim::simulate(std::move(prepared->setup)).summary);
  served.waits = times.waits();
  const carbon::Booking rated = power.rated().total;
  served.rated = {rated.energy.joules().value() / kJoulesPerWh, rated.carbon.grams().value() / 1e3};
  served.rated_in_hour_wh = power.rated_in_time().total.energy.joules().value() / kJoulesPerWh;
  served.in_hour_wh = power.booked_in_time().joules().value() / kJoulesPerWh;
  return served;
}

namespace {

struct Clocks final : journal::Sink {
  void decision(const journal::DecisionRecord& record) override {
    if (record.kind != journal::DecisionKind::Clock) return;
    all.emplace_back((record.at - Instant()).seconds(), static_cast<double>(record.value));
  }
  std::vector<std::pair<double, double>> all;
};

}  // namespace

Result<std::vector<std::pair<double, double>>> run_clocks(const std::string& scenario, const std::string& recipe,
                                                          const std::vector<std::string>& set,
                                                          std::vector<workload::TraceRow> rows) {
  Clocks clocks;
  const auto run = run_rows(scenario, recipe, set, std::move(rows), &clocks);
  if (!run) return std::unexpected(run.error());
  return std::move(clocks.all);
}

int rises(const std::vector<std::pair<double, double>>& clocks) {
  int count = 0;
  for (std::size_t i = 1; i < clocks.size(); ++i) count += clocks[i].second > clocks[i - 1].second ? 1 : 0;
  return count;
}

Result<journal::RunSummary> run_rows(const std::string& scenario, const std::string& recipe,
                                     const std::vector<std::string>& set, std::vector<workload::TraceRow> rows,
                                     journal::Sink* sink) {
  const auto loaded = config::scenario_from_text(scenario, "freesh", {}, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  const auto chosen = recipe_of(recipe, set);
  if (!chosen) return std::unexpected(chosen.error());
  auto run = experiment::prepare_run(*loaded, *chosen, config::data_dir());
  if (!run) return std::unexpected(run.error());
  workload::ListSource source(std::move(rows));
  run->setup.source = &source;
  run->setup.sink = sink;
  return std::move(sim::simulate(std::move(run->setup)).summary);
}

}  // namespace wattle::reproduce::freesh
