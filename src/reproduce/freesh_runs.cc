#include "reproduce/freesh_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/csv.h"
#include "base/random.h"
#include "config/locate.h"
#include "experiment/simulate.h"
#include "sim/simulation.h"
#include "systems/recipe.h"
#include "workload/source.h"

namespace wattle::reproduce::freesh {

namespace {

/// Where the partition cuts (Table 4).
struct Cut {
  std::int64_t prompt, answer;
};
Cut cut_of(const plan::RequestPartition& partition) { return partition.name == "1" ? Cut{184, 444} : Cut{25, 232}; }

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

std::size_t other_length(const plan::RequestPartition& partition, std::size_t type) {
  std::string name = partition.types[type].name;
  name.back() = name.back() == 'L' ? 'S' : 'L';
  const auto found = std::ranges::find(partition.types, name, &plan::PoolType::name);
  return found == partition.types.end() ? type : static_cast<std::size_t>(found - partition.types.begin());
}

}  // namespace

Result<std::vector<TypeLoad>> draw_load(const plan::RequestPartition& partition, const LoadOptions& options) {
  const auto lengths = real_lengths();
  if (!lengths) return std::unexpected(lengths.error());
  const Cut cut = cut_of(partition);
  std::vector<TypeLoad> load(partition.types.size());
  RandomStream classifier(options.seed, "freesh.classifier");
  for (std::size_t r = 0; r < partition.types.size(); ++r) {
    const auto& type = partition.types[r];
    std::vector<Pair> fitting;
    for (const Pair& pair : *lengths) {
      if ((pair.prompt >= cut.prompt) == is_long(type.name, 0) && (pair.answer >= cut.answer) == is_long(type.name, 1))
        fitting.push_back(pair);
    }
    if (fitting.empty()) return bad_input(type.name, "no real prompt and answer of this type");
    RandomStream random(options.seed, "freesh.load." + type.name);
    const double slot_s = options.seconds / static_cast<double>(type.demand_per_s.size());
    for (std::size_t t = 0; t < type.demand_per_s.size(); ++t) {
      const double rate = type.demand_per_s[t] * options.scale;
      if (rate <= 0.0) continue;
      const double begin = slot_s * static_cast<double>(t);
      for (double at = begin + random.exponential() / rate; at < begin + slot_s; at += random.exponential() / rate) {
        const auto& pair =
            fitting[static_cast<std::size_t>(random.uniform() * static_cast<double>(fitting.size())) % fitting.size()];
        const bool right = classifier.uniform() < options.accuracy;
        load[right ? r : other_length(partition, r)].rows.push_back(
            {Instant() + Span::from_seconds(at), pair.prompt, pair.answer});
      }
    }
  }
  for (TypeLoad& of : load) std::ranges::stable_sort(of.rows, {}, &workload::TraceRow::arrival);
  return load;
}

Served& Served::operator+=(const Served& o) {
  const double all = std::max(requests + o.requests, 1.0);
  const auto mean = [&](double& a, double b) { a = (a * requests + b * o.requests) / all; };
  mean(e2e_s, o.e2e_s);
  mean(ttft_ms, o.ttft_ms);
  mean(tbt_ms, o.tbt_ms);
  mean(violations, o.violations);
  mean(jain, o.jain);
  mean(clock_mhz, o.clock_mhz);
  ttft_p99_ms = std::max(ttft_p99_ms, o.ttft_p99_ms);
  tbt_p99_ms = std::max(tbt_p99_ms, o.tbt_p99_ms);
  energy_wh += o.energy_wh;
  carbon_kg += o.carbon_kg;
  requests += o.requests;
  finished += o.finished;
  site_wh.resize(std::max(site_wh.size(), o.site_wh.size()), 0.0);
  for (std::size_t n = 0; n < o.site_wh.size(); ++n) site_wh[n] += o.site_wh[n];
  return *this;
}

Result<journal::RunSummary> run_rows(const std::string& scenario, const Service& how,
                                     std::vector<workload::TraceRow> rows, const std::vector<plan::PoolSite>& sites,
                                     double seconds, journal::Sink* outcomes) {
  const auto loaded = config::scenario_from_text(scenario, "freesh", {}, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  const auto overrides = config::parse_overrides(how.set);
  if (!overrides) return std::unexpected(overrides.error());
  const auto recipe = systems::load_recipe(how.recipe, *overrides, config::project(), systems::Unfit::Ignored);
  if (!recipe) return std::unexpected(recipe.error());
  auto run = experiment::prepare_run(*loaded, *recipe, config::data_dir());
  if (!run) return std::unexpected(run.error());
  if (outcomes != nullptr) run->setup.sink = outcomes;
  workload::ListSource source(std::move(rows));
  run->setup.source = &source;
  for (std::size_t n = 0; n < sites.size() && n < run->setup.sites.size(); ++n) {
    std::vector<carbon::IntensitySeries::Point> points;
    const auto slots = static_cast<double>(sites[n].intensity.size());
    for (std::size_t t = 0; t < sites[n].intensity.size(); ++t) {
      points.push_back(
          {Instant() + Span::from_seconds(seconds * static_cast<double>(t) / slots), sites[n].intensity[t]});
    }
    auto series = carbon::IntensitySeries::from_points(std::move(points));
    if (!series) return std::unexpected(series.error());
    run->setup.sites[n].intensity = std::move(*series);
  }
  return std::move(sim::simulate(std::move(run->setup)).summary);
}

namespace {

constexpr double kWindowS = 1800.0;
constexpr double kJoulesPerWh = 3600.0;

std::string scenario_head(const plan::PoolsProblem& problem) {
  // Two A100 with 80 GB hold the 70B model only with most of their memory.
  std::string text =
      "name = \"freesh\"\nllm = \"llama-3-70b\"\n[engine]\ngpu_memory_utilization = 0.96\nactivation_gb_per_gpu = 1\n"
      "[workload]\nrequests = 1\n";
  for (const auto& site : problem.sites) text += fmt::format("[[site]]\nname = \"{}\"\n", site.name);
  return text;
}

Result<std::string> fleet_of(const plan::PoolsProblem& problem, const plan::WorkerPool& pool) {
  const auto& mode = problem.modes[pool.mode];
  const auto kinds = std::ranges::count_if(mode.gpus, [](int g) { return g > 0; });
  if (kinds != 1) return bad_input(mode.name, "pairs over two kinds of GPU are not simulated here");
  const auto kind = static_cast<std::size_t>(std::ranges::max_element(mode.gpus) - mode.gpus.begin());
  std::string name = problem.kinds[kind];
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return fmt::format("[[fleet]]\ngpu = \"{}\"\ntensor_parallel = {}\ncount = {}\nsite = \"{}\"\nweight = {}\n",
                     name == "a100" ? "a100-80g" : name, mode.gpus[kind], pool.workers, problem.sites[pool.site].name,
                     std::max(pool.load_per_s / pool.workers, 1e-3));
}

/// Tokens in time by quartile of answers, and requests not done within beta x Lat (appendix C).
class Fairness final : public journal::Sink {
 public:
  void outcome(const Outcome& o) override {
    if (o.fate != Fate::Finished) return;
    const double alone = kTtft_s + kTbt_s * o.output_tokens;
    late_ += o.e2e().seconds() > kLimit * alone ? 1.0 : 0.0;
    const double first = o.ttft().seconds();
    const double gap = o.tbt().seconds();
    double in_time = 0.0;
    if (first <= kWindow * alone) {
      in_time = gap > 0.0 ? 1.0 + std::floor((kWindow * alone - first) / gap) : static_cast<double>(o.output_tokens);
    }
    of_.emplace_back(o.output_tokens, std::min<double>(in_time, o.output_tokens));
  }
  [[nodiscard]] double jain() {
    std::ranges::sort(of_);
    std::array<double, 4> clients{};
    for (std::size_t i = 0; i < of_.size(); ++i) clients[i * 4 / of_.size()] += of_[i].second;
    double sum = 0.0, squares = 0.0;
    for (const double x : clients) sum += x, squares += x * x;
    return squares > 0.0 ? sum * sum / (4.0 * squares) : 1.0;
  }
  [[nodiscard]] double violations(double arrived) const {
    return arrived > 0.0 ? (late_ + arrived - static_cast<double>(of_.size())) / arrived : 0.0;
  }

 private:
  static constexpr double kTtft_s = 0.14, kTbt_s = 0.03, kWindow = 1.4, kLimit = 5.0;
  std::vector<std::pair<std::int32_t, double>> of_;
  double late_ = 0.0;
};

Served served_of(const journal::RunSummary& run, double seconds, Fairness& fairness) {
  Served s;
  // What is drawn while the last requests finish counts; longer runs count less of it.
  const double factor = kWindowS / seconds;
  s.energy_wh = run.energy.total.value() / kJoulesPerWh * factor;
  s.carbon_kg = run.carbon.value() / 1e3 * factor;
  s.requests = static_cast<double>(run.requests.arrived);
  s.finished = static_cast<double>(run.requests.finished);
  s.e2e_s = run.e2e.mean_ms / 1e3;
  s.ttft_ms = run.ttft.mean_ms;
  s.tbt_ms = run.tbt.mean_ms;
  s.ttft_p99_ms = run.ttft.p99_ms;
  s.tbt_p99_ms = run.tbt.p99_ms;
  s.violations = fairness.violations(s.requests);
  s.jain = fairness.jain();
  s.clock_mhz = run.clock_mean_mhz;
  for (const auto& row : run.by_site) s.site_wh.push_back(row.energy.value() / kJoulesPerWh * factor);
  return s;
}

}  // namespace

Result<Served> serve(const plan::PoolsProblem& problem, const plan::PoolsPlan& plan, std::span<const TypeLoad> load,
                     const Service& how, double seconds) {
  const auto& types = problem.partitions[plan.partition].types;
  Served sum;
  const auto add = [&](const std::string& fleet, std::vector<workload::TraceRow> rows) -> Result<void> {
    Fairness fairness;
    const auto run = run_rows(scenario_head(problem) + fleet, how, std::move(rows), problem.sites, seconds, &fairness);
    if (!run) return std::unexpected(run.error());
    sum += served_of(*run, seconds, fairness);
    return {};
  };
  std::string all_fleet;
  std::vector<workload::TraceRow> all_rows;
  for (std::size_t r = 0; r < types.size(); ++r) {
    std::string fleet;
    for (const auto& pool : plan.pools) {
      if (pool.type != r) continue;
      const auto one = fleet_of(problem, pool);
      if (!one) return std::unexpected(one.error());
      fleet += *one;
    }
    if (how.one_pool) {
      all_fleet += fleet;
      all_rows.insert(all_rows.end(), load[r].rows.begin(), load[r].rows.end());
      continue;
    }
    if (fleet.empty() && load[r].rows.empty()) continue;
    if (fleet.empty()) return bad_input(types[r].name, "has requests but no workers");
    if (auto ok = add(fleet, load[r].rows); !ok) return std::unexpected(ok.error());
  }
  if (how.one_pool) {
    std::ranges::stable_sort(all_rows, {}, &workload::TraceRow::arrival);
    if (auto ok = add(all_fleet, std::move(all_rows)); !ok) return std::unexpected(ok.error());
  }
  return sum;
}

}  // namespace wattle::reproduce::freesh
