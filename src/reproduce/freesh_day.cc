// FREESH's planner alone: a day against least energy, Table 3, sensitivity, feasibility and solver time.
#include <fmt/core.h>

#include <cmath>
#include <ctime>
#include <numeric>
#include <optional>

#include "base/random.h"
#include "reproduce/freesh.h"

namespace wattle::reproduce::freesh {

namespace {

constexpr double kKilo = 1e-3;
/// The release turns pounds into kilograms with this.
constexpr double kReleasePound = 0.5, kPound = 0.45359237;

void add_day(Section& section, const std::string& base, const Day& of, const Day& against) {
  add(section, base + "/carbon", "%", std::nullopt, percent_change(of.carbon().value(), against.carbon().value()));
  add(section, base + "/energy", "%", std::nullopt, percent_change(of.energy().value(), against.energy().value()));
  const double lacking = of.count(plan::PoolsStatus::Infeasible) + of.count(plan::PoolsStatus::Shed);
  if (lacking > 0.0) add(section, base + "/windows_short_of_capacity", "", std::nullopt, lacking);
}

Target within(const char* name, double published, double ours, double points) {
  const bool direction = published * ours > 0.0;
  return {name, fmt::format("{:.2f}±{:.0f} %", published, points), ours,
          direction && std::abs(ours - published) <= points};
}

/// Windows of which both have plans, so that sums can be compared.
void keep_common(Day& a, Day& b) {
  for (std::size_t w = 0; w < a.plans.size(); ++w) {
    if (a.plans[w].found() && b.plans[w].found()) continue;
    a.plans[w].status = b.plans[w].status = plan::PoolsStatus::Infeasible;
  }
}

Result<void> add_table_3(Section& section, const plan::PoolsData& data) {
  const auto one = plan_windows(data, published_options(), {0}, only_partition(0));
  const auto both = plan_windows(data, published_options(), {0});
  if (!one) return std::unexpected(one.error());
  if (!both) return std::unexpected(both.error());
  const double first = one->carbon().value() * kKilo;
  const double free = both->carbon().value() * kKilo;
  add(section, "table3/partition_1", "kg", 0.41, first);
  add(section, "table3/both_partitions", "kg", -0.44, free);
  add(section, "table3/partition_1_with_the_release's_pound_of_0.5_kg", "kg", 0.41, first * kReleasePound / kPound);
  add(section, "table3/both_partitions_with_the_release's_pound_of_0.5_kg", "kg", -0.44, free * kReleasePound / kPound);
  add(section, "table3/change", "%", -207.0, percent_change(free, first));
  const auto wattle = plan_windows(data, wattle_options(), {0});
  if (!wattle) return std::unexpected(wattle.error());
  add(section, "table3/both_partitions_without_reward_for_idle_workers", "kg", std::nullopt,
      wattle->carbon().value() * kKilo);
  return {};
}

Plot intensity_and_placement(const Day& carbon) {
  Plot plot{"GPUs in use by site, least carbon (default formulation)", "h", "GPUs", {}};
  const auto& sites = carbon.problems.front().sites;
  for (std::size_t n = 0; n < sites.size(); ++n) {
    Plot::Line line{"site " + sites[n].name, {}};
    for (std::size_t w = 0; w < carbon.plans.size(); ++w) {
      double gpus = 0.0;
      for (const auto& pool : carbon.plans[w].pools) {
        const auto& mode = carbon.problems[w].modes[pool.mode].gpus;
        if (pool.site == n) gpus += pool.workers * std::accumulate(mode.begin(), mode.end(), 0);
      }
      line.points.emplace_back(0.5 * static_cast<double>(w), gpus);
    }
    plot.lines.push_back(std::move(line));
  }
  return plot;
}

/// Which partition each window takes (Figure 9's day, where the paper names partition 2 for the episodes), and how
/// often that changes, which a router has to follow.
void add_choice(Section& section, const Day& day, const std::string& formulation) {
  constexpr std::size_t kEpisodes[] = {24, 25};
  const std::string base = "partition_choice/" + formulation;
  Plot plot{"Partition of each window (" + formulation + ")", "h", "partition", {{"partition", {}}}};
  double second = 0.0, changes = 0.0;
  std::optional<std::size_t> last;
  for (std::size_t w = 0; w < day.plans.size(); ++w) {
    if (!day.plans[w].found()) continue;
    const std::size_t chosen = day.plans[w].partition;
    second += chosen == 1 ? 1.0 : 0.0;
    changes += last && *last != chosen ? 1.0 : 0.0;
    last = chosen;
    plot.lines[0].points.emplace_back(0.5 * static_cast<double>(w), static_cast<double>(chosen + 1));
  }
  add(section, base + "/windows_with_partition_2", "", std::nullopt, second);
  add(section, base + "/changes", "", std::nullopt, changes);
  for (const std::size_t w : kEpisodes) {
    add(section, fmt::format("{}/window_{}", base, w), "", 2.0, static_cast<double>(day.plans[w].partition + 1));
  }
  section.plots.push_back(std::move(plot));
}

}  // namespace

Result<Section> day() {
  Section section;
  section.source = "Figure 12 and Table 3";
  section.note =
      "Planned, nothing served: 48 windows of the released data (beta 2, alpha 1.1), each plan checked independently. "
      "Change of carbon and energy against the plan of least energy. 'published' charges peak power and may reward "
      "idle workers; 'wattle' follows load, prices starts and never earns by idling. 'cleanest_site' is the honest "
      "baseline: each window wholly at the site of least mean intensity that can carry it, else at the cleanest that "
      "can together.";
  const auto data = load_data();
  if (!data) return std::unexpected(data.error());
  auto carbon = plan_day(*data, published_options(true));
  auto energy = plan_day(*data, published_options(false));
  if (!carbon) return std::unexpected(carbon.error());
  if (!energy) return std::unexpected(energy.error());
  keep_common(*carbon, *energy);
  const double less = percent_change(carbon->carbon().value(), energy->carbon().value());
  const double more = percent_change(carbon->energy().value(), energy->energy().value());
  add(section, "day/published/carbon", "%", -13.07, less);
  add(section, "day/published/energy", "%", 1.18, more);
  add(section, "day/published/carbon_kg", "kg", std::nullopt, carbon->carbon().value() * kKilo);
  add(section, "day/published/min_energy_carbon_kg", "kg", std::nullopt, energy->carbon().value() * kKilo);
  section.targets.push_back(within("day: carbon against least energy", -13.07, less, 8.0));
  section.targets.push_back(within("day: energy against least energy", 1.18, more, 8.0));

  const auto ours = plan_day(*data, wattle_options(true));
  const auto least = plan_day(*data, wattle_options(false));
  if (!ours) return std::unexpected(ours.error());
  if (!least) return std::unexpected(least.error());
  add_day(section, "day/wattle", *ours, *least);
  add(section, "day/wattle/carbon_kg", "kg", std::nullopt, ours->carbon().value() * kKilo);
  add(section, "day/wattle/started_workers", "", std::nullopt, ours->started());
  section.plots.push_back(intensity_and_placement(*ours));
  add_choice(section, *carbon, "published");
  add_choice(section, *ours, "wattle");
  const std::pair<const char*, Change> variants[] = {
      {"partition_1_only", only_partition(0)},
      {"partition_2_only", only_partition(1)},
      {"tp2_a100_and_h100_only", only_modes({0, 3})},
      {"cleanest_site", cleanest_site(wattle_options())},
  };
  for (const auto& [name, change] : variants) {
    const auto variant = plan_day(*data, wattle_options(), change);
    if (!variant) return std::unexpected(variant.error());
    add_day(section, fmt::format("day/{}_against_wattle", name), *variant, *ours);
  }
  for (const double alpha : {1.0, 1.2, 1.5}) {
    auto options = wattle_options();
    options.alpha = alpha;
    const auto variant = plan_day(*data, options);
    if (!variant) return std::unexpected(variant.error());
    add_day(section, fmt::format("day/alpha_{:.1f}_against_1.1", alpha), *variant, *ours);
  }
  if (auto ok = add_table_3(section, *data); !ok) return std::unexpected(ok.error());
  return section;
}

namespace {

double capacity_of(const plan::PoolsProblem& problem, const plan::PoolsPlan& plan, std::size_t type) {
  double sum = 0.0;
  for (const auto& pool : plan.pools) {
    if (pool.type != type) continue;
    sum += pool.workers * problem.partitions[plan.partition].types[type].ratings[pool.mode]->max_per_s;
  }
  return sum;
}

/// Share of slots of all types in which the plan's workers cannot carry the demand in `truth`.
double short_of(const Day& day, const std::vector<plan::PoolsProblem>& truth) {
  double shortages = 0.0;
  double all = 0.0;
  for (std::size_t w = 0; w < day.plans.size(); ++w) {
    const auto& plan = day.plans[w];
    if (!plan.found()) continue;
    const auto& types = truth[w].partitions[plan.partition].types;
    for (std::size_t r = 0; r < types.size(); ++r) {
      const double capacity = capacity_of(truth[w], plan, r);
      for (const double demand : types[r].demand_per_s) {
        all += 1.0;
        shortages += demand > capacity * (1.0 + 1e-9) ? 1.0 : 0.0;
      }
    }
  }
  return all > 0.0 ? 100.0 * shortages / all : 0.0;
}

/// Carbon of plans made under other intensities, at the true ones: their joules by site and slot do not change.
double carbon_at(const Day& day, const std::vector<plan::PoolsProblem>& truth) {
  double sum = 0.0;
  for (std::size_t w = 0; w < day.plans.size(); ++w) {
    const auto& plan = day.plans[w];
    if (!plan.found()) continue;
    const auto& types = truth[w].partitions[plan.partition].types;
    for (const auto& pool : plan.pools) {
      const auto& type = types[pool.type];
      const auto& rating = *type.ratings[pool.mode];
      const double mean = std::accumulate(type.demand_per_s.begin(), type.demand_per_s.end(), 0.0) /
                          static_cast<double>(type.demand_per_s.size());
      for (std::size_t t = 0; t < type.demand_per_s.size(); ++t) {
        const double load = mean > 0.0 ? pool.load_per_s * type.demand_per_s[t] / mean : 0.0;
        const double busy = (rating.peak - rating.idle).value() * load / rating.max_per_s;
        sum += (rating.idle.value() * pool.workers + busy) * truth[w].sites[pool.site].intensity[t].value();
      }
    }
  }
  return sum;
}

Change scale_gpus(double factor) {
  return [factor](plan::PoolsProblem& problem) {
    for (auto& site : problem.sites) {
      for (int& gpus : site.gpus) gpus = static_cast<int>(std::floor(gpus * factor));
    }
  };
}

/// Multiplies each site's intensity by a random factor in every slot.
Change disturb_intensity(double deviation, RandomStream& random) {
  return [deviation, &random](plan::PoolsProblem& problem) {
    for (auto& site : problem.sites) {
      for (auto& g : site.intensity) g = GramsPerKwh(g.value() * (1.0 + deviation * random.normal()));
    }
  };
}

/// `times` as many sites, copies of the data's, and as much demand.
Change scale_sites(int times) {
  return [times](plan::PoolsProblem& problem) {
    const auto sites = problem.sites;
    for (int k = 1; k < times; ++k) {
      for (auto site : sites) {
        site.name += fmt::format(".{}", k);
        // Copies differ slightly, so that the planner cannot profit from symmetry.
        for (auto& g : site.intensity) g = GramsPerKwh(g.value() * (1.0 + 0.003 * k));
        problem.sites.push_back(std::move(site));
      }
    }
    for (auto& partition : problem.partitions) {
      for (auto& type : partition.types) {
        for (double& demand : type.demand_per_s) demand *= times;
      }
    }
  };
}

const std::vector<std::size_t> kEveryFourth{0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44};

Result<void> add_errors(Section& section, const plan::PoolsData& data) {
  const auto exact = plan_day(data, wattle_options());
  if (!exact) return std::unexpected(exact.error());
  for (const double error : {-20.0, -10.0, 10.0, 20.0}) {
    const auto off = plan_day(data, wattle_options(), nullptr, kBeta / (1.0 + error / 100.0));
    if (!off) return std::unexpected(off.error());
    const std::string base = fmt::format("traffic_forecast_{:+.0f}%", error);
    add(section, base + "/slots_short_of_capacity", "%", std::nullopt, short_of(*off, exact->problems));
    add(section, base + "/carbon_planned", "%", std::nullopt,
        percent_change(off->carbon().value(), exact->carbon().value()));
  }
  const double best = carbon_at(*exact, exact->problems);
  for (const double deviation : {0.1, 0.2, 0.4}) {
    RandomStream random(1, "freesh.intensity");
    const auto off = plan_day(data, wattle_options(), disturb_intensity(deviation, random));
    if (!off) return std::unexpected(off.error());
    add(section, fmt::format("carbon_forecast_{:.0f}%_deviation/carbon", 100.0 * deviation), "%", std::nullopt,
        percent_change(carbon_at(*off, exact->problems), best));
  }
  return {};
}

/// Carbon against least energy where all windows have plans, and how many have.
Result<void> add_map(Section& section, const plan::PoolsData& data) {
  for (const double gpus : {0.5, 0.75, 1.0, 1.5}) {
    for (const double traffic : {0.5, 1.0, 1.5, 2.0}) {
      auto carbon = plan_windows(data, published_options(true), kEveryFourth, scale_gpus(gpus), kBeta / traffic);
      auto energy = plan_windows(data, published_options(false), kEveryFourth, scale_gpus(gpus), kBeta / traffic);
      if (!carbon) return std::unexpected(carbon.error());
      if (!energy) return std::unexpected(energy.error());
      const std::string base = fmt::format("map/gpus_x{:.2f}_traffic_x{:.1f}", gpus, traffic);
      const double feasible = static_cast<double>(kEveryFourth.size()) - carbon->count(plan::PoolsStatus::Infeasible);
      add(section, base + "/feasible_windows_of_12", "", std::nullopt, feasible);
      if (feasible == 0.0) continue;
      keep_common(*carbon, *energy);
      add(section, base + "/carbon_against_least_energy", "%", std::nullopt,
          percent_change(carbon->carbon().value(), energy->carbon().value()));
    }
  }
  return {};
}

Result<void> add_solver_times(Section& section, const plan::PoolsData& data) {
  for (const int times : {1, 2, 4, 7}) {
    auto problem = data.window(24 * kSlotsPerWindow, kSlotsPerWindow, kBeta);
    if (times > 1) scale_sites(times)(problem);
    const std::clock_t begin = std::clock();
    const auto plan = plan::plan_pools(problem, wattle_options());
    if (!plan) return std::unexpected(plan.error());
    const double ms = 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const std::string base = fmt::format("solver/{}_sites", 3 * times);
    add(section, base + "/cpu_time", "ms", times == 1 ? std::optional(80.0) : std::nullopt, ms);
    add(section, base + "/from_the_bound", "%", std::nullopt, percent_change(plan->objective, plan->bound));
  }
  return {};
}

}  // namespace

Result<Section> sensitivity() {
  Section section;
  section.source = "Figures 10 and 11";
  section.note =
      "Planned, nothing served. Forecast errors: plans made with every demand, or each intensity (independent normal "
      "factors), off, judged at the true ones. Map: published formulation, every fourth window. Solver: CPU time of "
      "one window; the paper prints 0.08 to 19.36 s by scale and solves with Gurobi.";
  const auto data = load_data();
  if (!data) return std::unexpected(data.error());
  if (auto ok = add_errors(section, *data); !ok) return std::unexpected(ok.error());
  if (auto ok = add_map(section, *data); !ok) return std::unexpected(ok.error());
  if (auto ok = add_solver_times(section, *data); !ok) return std::unexpected(ok.error());
  return section;
}

}  // namespace wattle::reproduce::freesh
