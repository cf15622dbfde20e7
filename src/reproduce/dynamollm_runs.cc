// Runs of DynamoLLM's recipes on the service of its evaluation, and their results.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "config/locate.h"
#include "experiment/load_profile.h"
#include "experiment/simulate.h"
#include "reproduce/dynamollm.h"
#include "sim/simulation.h"
#include "systems/recipe.h"

namespace wattle::reproduce::dynamollm {

namespace {

constexpr Span kMinute = Span::s(60);
constexpr Span kSample = Span::s(2);
constexpr Span kDay = Span::s(86'400);
constexpr int kGpusPerServer = 8;
constexpr std::size_t kPeakMinutes = 10;

/// Adds up samples by minute and by pool.
class Watcher final : public journal::Sink {
 public:
  /// `name` is in its progress lines, one a day.
  explicit Watcher(std::string name) : name_(std::move(name)) {}
  void begin_with(const std::vector<journal::Instance>& instances) {
    for (const auto& one : instances) joined(one);
  }
  void joined(const journal::Instance& one) override {
    of(one.id) = {one.spec.tensor_parallel, static_cast<std::size_t>(std::max(one.spec.pool.value(), 0))};
  }
  void outcome(const Outcome&) override { ++left_; }
  void sample(const journal::Sample& s) override {
    for (; s.at >= next_day_; next_day_ += kDay) {
      fmt::print(stderr, "dynamollm: {}: {:.0f} days, {:.1f} million requests\n", name_,
                 (next_day_ - Instant()).seconds() / kDay.seconds(), static_cast<double>(left_) / 1e6);
    }
    const Instance& instance = of(s.instance);
    const auto minute = static_cast<std::size_t>(s.at.ns() / kMinute.ns());
    const auto tick = static_cast<std::size_t>(s.at.ns() / kSample.ns());
    if (tick >= power_w.size()) power_w.resize(tick + 1, 0.0);
    power_w[tick] += to_watts(s.power).value();
    if (instance.pool >= pools.size()) pools.resize(instance.pool + 1);
    if (instance.pool >= pool_minutes.size()) pool_minutes.resize(instance.pool + 1);
    add(minutes, minute, instance.tp, s.clock);
    add(pool_minutes[instance.pool], minute, instance.tp, s.clock);
    PoolUse& use = pools[instance.pool];
    const bool busy = s.decode_requests > 0 || s.prefill_tokens > 0 || s.waiting_requests > 0;
    use.gpus += instance.tp;
    use.idle_share += busy ? 0.0 : instance.tp;
    use.clock_mhz += instance.tp * static_cast<double>(s.clock.value());
    if (busy) {
      use.batch += s.decode_requests;
      ++busy_samples(instance.pool);
    }
  }
  /// Sums become means. `energy`: of each instance, by id.
  void close(const std::vector<journal::UsageRow>& energy) {
    const auto ticks = static_cast<double>(std::max<std::size_t>(power_w.size(), 1));
    for (auto* all : {&minutes}) mean_of(*all);
    for (auto& pool : pool_minutes) mean_of(pool);
    for (std::size_t p = 0; p < pools.size(); ++p) {
      PoolUse& use = pools[p];
      use.batch /= std::max(1.0, busy_samples(p));
      use.idle_share /= std::max(1.0, use.gpus);
      use.clock_mhz /= std::max(1.0, use.gpus);
      use.gpus /= ticks;
    }
    for (const auto& row : energy) {  // a name is an id; of instances long gone there is one row for all
      std::size_t id = instances_.size();
      std::from_chars(row.name.data(), row.name.data() + row.name.size(), id);
      if (id < instances_.size() && instances_[id].pool < pools.size()) {
        pools[instances_[id].pool].energy_kwh += row.energy.value() / 3.6e6;
      }
    }
  }

  std::vector<Occupied> minutes;
  std::vector<std::vector<Occupied>> pool_minutes;
  std::vector<PoolUse> pools;
  std::vector<double> power_w;

 private:
  struct Instance {
    int tp = 1;
    std::size_t pool = 0;
  };
  Instance& of(InstanceId id) {
    const auto i = static_cast<std::size_t>(id.value());
    if (i >= instances_.size()) instances_.resize(i + 1);
    return instances_[i];
  }
  double& busy_samples(std::size_t pool) {
    if (pool >= busy_.size()) busy_.resize(pool + 1, 0.0);
    return busy_[pool];
  }
  static void add(std::vector<Occupied>& all, std::size_t minute, int tp, MegaHertz clock) {
    if (minute >= all.size()) all.resize(minute + 1);
    all[minute].gpus[tp] += tp * kSample.seconds() / kMinute.seconds();
    all[minute].clock_mhz += tp * clock.value() * kSample.seconds() / kMinute.seconds();
  }
  static void mean_of(std::vector<Occupied>& all) {
    for (Occupied& one : all) one.clock_mhz /= std::max(1e-9, one.all_gpus());
  }

  std::string name_;
  Instant next_day_ = Instant() + kDay;
  std::int64_t left_ = 0;
  std::vector<Instance> instances_;
  std::vector<double> busy_;
};

/// First minute of the `kPeakMinutes` that need most servers together.
std::size_t busiest_window(const std::vector<std::vector<double>>& minutes,
                           const std::function<double(const std::vector<double>&)>& servers_for) {
  std::size_t first = 0;
  double sum = 0.0, most = 0.0;
  for (std::size_t m = 0; m < minutes.size(); ++m) {
    sum += servers_for(minutes[m]);
    if (m >= kPeakMinutes) sum -= servers_for(minutes[m - kPeakMinutes]);
    if (sum <= most) continue;
    most = sum;
    first = m + 1 - std::min(m + 1, kPeakMinutes);
  }
  return first;
}

}  // namespace

double Occupied::all_gpus() const {
  double sum = 0.0;
  for (const auto& [tp, count] : gpus) sum += count;
  return sum;
}

double FleetRun::power_w_at(double quantile) const {
  std::vector<double> sorted = power_w;
  if (sorted.empty()) return 0.0;
  std::ranges::sort(sorted);
  return sorted[static_cast<std::size_t>(quantile * static_cast<double>(sorted.size() - 1))];
}

double FleetRun::spare_kwh() const {
  double of_instances = 0.0;
  for (const auto& row : summary.by_instance) of_instances += row.energy.value();
  return (summary.energy.total.value() - of_instances) / 3.6e6;
}

double FleetRun::mean_gpus() const {
  double sum = 0.0;
  for (const PoolUse& pool : pools) sum += pool.gpus;
  return sum;
}

double FleetRun::mean_servers() const { return summary.mean_gpus / kGpusPerServer; }

Result<config::LoadedScenario> hour_scenario(const std::vector<std::string>& set) {
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return config::load_scenario("dynamollm-hour", *overrides, config::project());
}

Result<std::shared_ptr<const plan::LoadTable>> profile_of(const config::LoadedScenario& scenario) {
  experiment::LoadProfileRequest request;
  request.progress = [](const std::string& line) { fmt::print(stderr, "load profile: {}\n", line); };
  return experiment::scenario_profile(scenario, {}, config::data_dir(), request);
}

Result<HourLoad> load_of(const config::LoadedScenario& scenario) {
  const auto table = profile_of(scenario);
  if (!table) return std::unexpected(table.error());
  const auto minutes = experiment::rates_by_minute(scenario, {}, config::data_dir());
  if (!minutes) return std::unexpected(minutes.error());
  std::vector<double> carries;  // of a server
  for (const auto& one : (*table)->classes) carries.push_back(plan::most_load(one, 8, plan::top_clock(one, 8)));
  const auto servers_for = [&](const std::vector<double>& rates) {
    double servers = 0.0;
    for (std::size_t c = 0; c < rates.size(); ++c) servers += rates[c] / carries[c];
    return servers;
  };
  HourLoad load;
  load.start = scenario.scenario.workload.start;
  load.peak_per_s.resize(carries.size(), 0.0);
  for (const auto& minute : *minutes) {
    const double servers = servers_for(minute);
    load.mean_servers += servers / static_cast<double>(minutes->size());
    for (std::size_t c = 0; c < minute.size(); ++c) load.peak_per_s[c] = std::max(load.peak_per_s[c], minute[c]);
    if (servers <= load.busiest_servers) continue;
    load.busiest_servers = servers;
    load.busiest_per_s = minute;
  }
  load.busiest_window = busiest_window(*minutes, servers_for);
  load.servers_of_peaks = servers_for(load.peak_per_s);
  return load;
}

Result<FleetRun> run(const Run& what) {
  const auto scenario_set = config::parse_overrides(what.scenario_set);
  if (!scenario_set) return std::unexpected(scenario_set.error());
  const auto scenario = config::load_scenario(what.scenario, *scenario_set, config::project());
  if (!scenario) return std::unexpected(scenario.error());
  const auto overrides = config::parse_overrides(what.set);
  if (!overrides) return std::unexpected(overrides.error());
  const auto recipe = systems::load_recipe(what.recipe, *overrides, config::project());
  if (!recipe) return std::unexpected(recipe.error());
  auto prepared = experiment::prepare_run(*scenario, *recipe, config::data_dir());
  if (!prepared) return std::unexpected(prepared.error());
  Watcher watcher(fmt::format("{} on {}", what.recipe, what.scenario));
  watcher.begin_with(prepared->facts.instances);
  prepared->setup.sink = &watcher;
  prepared->setup.sample_period = kSample;
  FleetRun made;
  made.summary = std::move(sim::simulate(std::move(prepared->setup)).summary);
  watcher.close(made.summary.by_instance);
  made.minutes = std::move(watcher.minutes);
  made.pool_minutes = std::move(watcher.pool_minutes);
  made.pools = std::move(watcher.pools);
  made.power_w = std::move(watcher.power_w);
  fmt::print(stderr, "dynamollm: {} {}: {:.1f} kWh, {:.1f} % of objectives, {:.1f} servers\n", what.recipe,
             fmt::join(what.set, " "), made.kwh(), 100.0 * made.summary.slo.all, made.mean_servers());
  return made;
}

std::vector<std::string> peak_of(const HourLoad& load) {
  const double begin = load.start.seconds() + static_cast<double>(load.busiest_window) * kMinute.seconds();
  return {fmt::format("workload.start_s={}", begin),
          fmt::format("workload.duration_s={}", kPeakMinutes * kMinute.seconds())};
}

std::vector<std::string> poisson_of(const HourLoad& load, double share) {
  double busiest = 0.0;
  for (const double rate : load.busiest_per_s) busiest += rate;
  return {"workload.trace=",          "workload.lengths=azure-llm-2023/AzureLLMInferenceTrace_conv.csv",
          "workload.copies=1",        "workload.requests=1000000",
          "workload.duration_s=1200", fmt::format("workload.rate_per_s={:.3f}", busiest * share)};
}

Result<double> kept_at_the_peak(const std::string& scenario, const HourLoad& load, int servers,
                                const std::vector<std::string>& scenario_set) {
  auto slice = peak_of(load);
  slice.insert(slice.end(), scenario_set.begin(), scenario_set.end());
  slice.push_back(fmt::format("fleet.0.count={}", servers));
  const auto made = run({"single-pool", {}, scenario, slice});
  if (!made) return std::unexpected(made.error());
  double least = 1.0;
  for (const auto& one : made->summary.service_by_class) {
    if (one.left > 0) least = std::min(least, one.attainment);
  }
  return least;
}

Run fixed_fleet(int tp, int mhz, int gpus) {
  Run made{"single-pool"};
  made.set = {fmt::format("frequency.clock_mhz={}", mhz)};
  for (const auto& [place, degree] : {std::pair(0, 8), std::pair(1, 4), std::pair(2, 2)}) {
    made.scenario_set.push_back(fmt::format("fleet.{}.count={}", place, degree == tp ? gpus / tp : 0));
  }
  return made;
}

Result<std::vector<Fixed>> fixed_clocks(const Run& like, const std::vector<int>& degrees, int gpus) {
  std::vector<Fixed> all;
  for (const int tp : degrees) {
    for (const int mhz : {810, 1005, 1200, 1395, 1605, 1800, 1980}) {
      Run what = fixed_fleet(tp, mhz, gpus);
      what.scenario = like.scenario;
      what.scenario_set.insert(what.scenario_set.end(), like.scenario_set.begin(), like.scenario_set.end());
      auto made = run(what);
      if (!made) return std::unexpected(made.error());
      all.push_back({tp, mhz, std::move(*made)});
    }
  }
  return all;
}

const Fixed* best_of(const std::vector<Fixed>& all, const FleetRun& base, int tp) {
  const Fixed* best = nullptr;
  for (const Fixed& one : all) {
    if (tp != 0 && one.tp != tp) continue;
    if (one.run.summary.slo.all < base.summary.slo.all - kAllowedMiss) continue;
    if (best == nullptr || one.run.kwh() < best->run.kwh()) best = &one;
  }
  return best;
}

plan::ShardingProblem problem_of(const plan::LoadTable& table, const std::vector<double>& load_per_s, int gpus,
                                 Watts unused_gpu) {
  plan::ShardingProblem problem;
  problem.gpus = gpus;
  problem.unused_gpu = unused_gpu;
  for (std::size_t c = 0; c < table.classes.size(); ++c) {
    const plan::ProfiledClass& one = table.classes[c];
    plan::ShardClass made{one.name, load_per_s[c], one.limits, one.profiles, 1.0};
    if (c + 1 < table.classes.size()) made.load_in_next = plan::load_in(one, table.classes[c + 1]);
    problem.classes.push_back(std::move(made));
  }
  return problem;
}

}  // namespace wattle::reproduce::dynamollm
