#include "reproduce/freesh_runs.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/csv.h"
#include "base/file.h"
#include "base/random.h"
#include "config/locate.h"
#include "experiment/simulate.h"
#include "sim/simulation.h"
#include "systems/recipe.h"

namespace wattle::reproduce::freesh {

namespace {

constexpr std::array<std::size_t, 2> kEpisodes{24, 25};  ///< E1, E2
constexpr double kSlot_s = 300.0;
constexpr std::size_t kPartition = 1;                      ///< the release's plans of both episodes use the second one
constexpr std::int64_t kPromptCut = 25, kAnswerCut = 232;  ///< Table 4

struct Pair {
  std::int32_t prompt, answer;
};

Result<std::vector<Pair>> real_lengths() {
  const auto file = published_file("length-stats/apex_llama_lmsys_05.csv");
  if (!file) return std::unexpected(file.error());
  constexpr std::array<std::string_view, 2> kColumns{"input_tokens", "output_tokens"};
  auto csv = CsvReader::open(file->text, file->path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<Pair> pairs;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return pairs;
    const auto prompt = csv->whole(0, 0, 1'000'000);
    const auto answer = csv->whole(1, 0, 1'000'000);
    if (!prompt) return std::unexpected(prompt.error());
    if (!answer) return std::unexpected(answer.error());
    if (*prompt > 0 && *answer > 0) {
      pairs.push_back({static_cast<std::int32_t>(*prompt), static_cast<std::int32_t>(*answer)});
    }
  }
}

/// "SL": a short prompt, a long answer.
bool is_long(const std::string& type, std::size_t letter) { return type.size() > letter && type[letter] == 'L'; }

Result<std::vector<workload::TraceRow>> draw_load(const std::vector<plan::PoolsProblem>& episodes, double scale,
                                                  std::uint64_t seed) {
  const auto lengths = real_lengths();
  if (!lengths) return std::unexpected(lengths.error());
  std::vector<workload::TraceRow> rows;
  const auto& types = episodes.front().partitions[kPartition].types;
  for (std::size_t r = 0; r < types.size(); ++r) {
    std::vector<Pair> fitting;
    for (const Pair& pair : *lengths) {
      const bool prompt = pair.prompt >= kPromptCut, answer = pair.answer >= kAnswerCut;
      if (prompt == is_long(types[r].name, 0) && answer == is_long(types[r].name, 1)) fitting.push_back(pair);
    }
    if (fitting.empty()) return bad_input(types[r].name, "no real prompt and answer of this type");
    RandomStream random(seed, "freesh.load." + types[r].name);
    double begin = 0.0;
    for (const auto& episode : episodes) {
      for (const double demand : episode.partitions[kPartition].types[r].demand_per_s) {
        const double rate = demand * scale;
        for (double at = begin; rate > 0.0;) {
          at += random.exponential() / rate;
          if (at >= begin + kSlot_s) break;
          const auto& pair = fitting[random.below(fitting.size())];
          rows.push_back({Instant() + Span::from_seconds(at), pair.prompt, pair.answer});
        }
        begin += kSlot_s;
      }
    }
  }
  std::ranges::stable_sort(rows, {}, &workload::TraceRow::arrival);
  return rows;
}

std::string spec_name(std::string kind) {
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return kind == "a100" ? "a100-80g" : kind;
}

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

std::string scenario_of(const std::vector<plan::PoolsProblem>& episodes) {
  const auto& problem = episodes.front();
  // Two A100 with 80 GB hold the 70B model only with most of their memory. Lat: the release's profile of Table 5.
  std::string text = fmt::format(
      "name = \"freesh\"\nllm = \"llama-3-70b\"\n[engine]\ngpu_memory_utilization = 0.96\nactivation_gb_per_gpu = 1\n"
      "[workload]\ntrace = \"requests.csv\"\nmax_prompt_tokens = 4096\nmax_output_tokens = 2048\n[spawn]\nload_s = "
      "50\nwarm_s = 10\n[fairness]\nttft_ms = 140\ntbt_ms = 30\n[classes]\nprompt_below = [{}]\noutput_below = "
      "[{}]\n",
      kPromptCut, kAnswerCut);
  for (const auto& type : problem.partitions[kPartition].types) {
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

std::string time_of(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  return fmt::format("2024-01-01 {:02}:{:02}:{:010.7f}", whole / 3600, whole / 60 % 60,
                     seconds - static_cast<double>(whole / 60 * 60));
}

/// A folder for the scenario's files, gone with it.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "wattle-freesh-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

Result<void> write_scenario(const Folder& folder, const std::vector<plan::PoolsProblem>& episodes,
                            const std::vector<workload::TraceRow>& rows) {
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
  return write_file(folder.file("scenario.toml"), scenario_of(episodes));
}

Served served_of(const journal::RunSummary& run) {
  constexpr double kJoulesPerWh = 3600.0;
  Served s;
  s.energy_wh = run.energy.total.value() / kJoulesPerWh;
  s.carbon_kg = run.carbon.value() / 1e3;
  s.requests = static_cast<double>(run.requests.arrived);
  s.finished = static_cast<double>(run.requests.finished);
  s.e2e_s = run.e2e.mean_ms / 1e3;
  s.ttft_ms = run.ttft.mean_ms;
  s.tbt_ms = run.tbt.mean_ms;
  s.ttft_p99_ms = run.ttft.p99_ms;
  s.tbt_p99_ms = run.tbt.p99_ms;
  s.violations = run.fairness.violation_rate;
  s.jain = run.fairness.jain;
  s.clock_mhz = run.clock_mean_mhz;
  return s;
}

/// What the planner expects: the release's peaks from the first episode on, of the recipe's partition.
std::vector<std::string> expecting(std::string_view recipe) {
  const int partition = recipe == "freesh-wo-multiparti" ? 1 : 2;
  return {fmt::format("scaling.demand=LLM_Serving_FREESH/peak_qps_partition{}.csv", partition),
          fmt::format("scaling.demand_from={}", kEpisodes.front() * kSlotsPerWindow),
          fmt::format("scaling.beta={}", kBeta)};
}

Result<systems::LoadedRecipe> recipe_of(const std::string& name, const std::vector<std::string>& set) {
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return systems::load_recipe(name, *overrides, config::project(), systems::Unfit::Ignored);
}

}  // namespace

Result<Served> run_fleet(const plan::PoolsData& data, const FleetRun& run) {
  std::vector<plan::PoolsProblem> episodes;
  for (const std::size_t w : kEpisodes) episodes.push_back(data.window(w * kSlotsPerWindow, kSlotsPerWindow, kBeta));
  const auto rows = draw_load(episodes, run.scale, run.seed);
  if (!rows) return std::unexpected(rows.error());
  const Folder folder;
  if (auto ok = write_scenario(folder, episodes, *rows); !ok) return std::unexpected(ok.error());
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
  experiment::SimulateOptions options;
  options.data_dir = config::data_dir();
  const auto summary = experiment::run_simulation(*loaded, *recipe, options);
  if (!summary) return std::unexpected(summary.error());
  return served_of(*summary);
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
