#include "plan/pools_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace wattle::plan {

namespace {
/// Enough workers of any mode when their GPUs are not counted.
constexpr double kManyWorkers = 1e4;
/// Solvers' tolerances are absolute, about 1e-6 of a row and of a whole number: a demand near that would be met by no
/// worker, or by a ten-millionth of one. Below this many requests a second a type is counted in units of its own
/// demand.
constexpr double kLeastRate = 1e-3;

/// A type that no mode may serve: which limit is missed, and by how little at best.
std::string no_mode_serves(const PoolType& type, const std::vector<WorkerMode>& modes) {
  std::string nearest;
  double best = 0.0;
  for (std::size_t m = 0; m < modes.size(); ++m) {
    const auto& rating = type.ratings[m];
    if (!rating || rating->max_per_s <= 0.0 || within_limits(type, *rating)) continue;
    const double ttft = rating->ttft.seconds() / type.ttft_limit.seconds();
    const double tbt = rating->tbt.seconds() / type.tbt_limit.seconds();
    if (!nearest.empty() && std::max(ttft, tbt) >= best) continue;
    best = std::max(ttft, tbt);
    nearest = ttft >= tbt ? fmt::format("; nearest is {} with TTFT {:.4g} ms, limit {:.4g} ms", modes[m].name,
                                        rating->ttft.millis(), type.ttft_limit.millis())
                          : fmt::format("; nearest is {} with TBT {:.4g} ms, limit {:.4g} ms", modes[m].name,
                                        rating->tbt.millis(), type.tbt_limit.millis());
  }
  return fmt::format("latency limits of {}: no mode serves it within them{}", type.name, nearest);
}
}  // namespace

PoolsModel::PoolsModel(const PoolsProblem& problem, const PoolsOptions& options, const JouleWeights& weights,
                       std::size_t partition, const PoolsPlan* previous, double alpha, bool shedding)
    : problem_(problem),
      options_(options),
      partition_(partition),
      types_(problem.partitions[partition].types),
      kinds_(problem.kinds) {
  for (const PoolSite& site : problem.sites) limits_.push_back(gpu_limits(problem, site));
  for (const PoolType& type : types_) {
    const double demand = published() ? alpha * peak_demand(type) : mean_demand(type);
    units_.push_back(demand > 0.0 && demand < kLeastRate ? demand : 1.0);
  }
  add_workers(weights, alpha);
  add_totals();
  add_demand(alpha, shedding);
  add_kept();
  add_capacity();
  if (!published()) add_starts(weights, previous);
  if (!shedding) return;
  std::vector<Milp::Term> all;
  for (int i = 0; i < program_.variables(); ++i) {
    costs_.push_back(program_.cost(i));
    program_.set_cost(i, 0.0);
  }
  for (std::size_t r = 0; r < shed_.size(); ++r) {
    const double share = demand_[r] > 0.0 ? 1.0 / demand_[r] : 0.0;
    program_.set_cost(shed_[r], share);
    all.push_back({shed_[r], share});
  }
  shed_row_ = program_.row(-kNoLimit, kNoLimit, all);
}

void PoolsModel::add_workers(const JouleWeights& weights, double alpha) {
  for (std::size_t n = 0; n < problem_.sites.size(); ++n) {
    for (std::size_t r = 0; r < types_.size(); ++r) {
      for (std::size_t m = 0; m < problem_.modes.size(); ++m) add_group(weights, n, r, m, alpha);
    }
  }
}

void PoolsModel::add_group(const JouleWeights& weights, std::size_t site, std::size_t type, std::size_t mode,
                           double alpha) {
  const PoolType& kind_of_request = types_[type];
  const auto& rating = kind_of_request.ratings[mode];
  if (!rating || !within_limits(kind_of_request, *rating) || !problem_.sites[site].has_mode(mode)) return;
  const double most = most_workers(site, mode);
  const std::size_t slots = kind_of_request.demand_per_s.size();
  const double slot_s = problem_.slot.seconds();
  double constant = 0.0;  // worth of one watt drawn through the window
  for (std::size_t t = 0; t < slots; ++t) {
    constant += slot_s * (published() ? weights.signed_weight(site, t) : weights.cost_weight(site, t));
  }
  Group group;
  group.where = {.site = site, .type = type, .mode = mode};
  if (published()) {
    group.usable = in_units(type, rating->max_per_s);
    group.cost = rating->peak.value() * constant;
    group.workers = program_.variable(0, most, group.cost, Domain::Integer);
    groups_.push_back(group);
    return;
  }
  const double mean = mean_demand(kind_of_request), peak = peak_demand(kind_of_request);
  if (rating->max_per_s <= 0.0 || peak <= 0.0) return;
  // Routing weights stand for the whole window: a worker's load follows the type's, and its peak needs the margin.
  group.usable = in_units(type, rating->max_per_s * mean / (alpha * peak));
  group.cost = rating->idle.value() * constant;
  group.workers = program_.variable(0, most, group.cost, Domain::Integer);
  double cost = 0.0;
  for (std::size_t t = 0; t < slots; ++t) {
    const double requests = slot_s * kind_of_request.demand_per_s[t] / mean;  // per unit of mean load
    cost += requests *
            (joules_per_request(*rating) * weights.cost_weight(site, t) + weights.credit(site, t, partition_, type));
  }
  group.load_cost = cost * units_[type];
  group.load = program_.variable(0, mean / units_[type], group.load_cost);
  program_.row(-kNoLimit, 0.0, {{group.load, 1.0}, {group.workers, -group.usable}});
  groups_.push_back(group);
}

double PoolsModel::in_units(std::size_t type, double per_s) const {
  // Of a worker that carries all of it no more than that counts: so no plan is lost, and no coefficient is huge.
  return units_[type] == 1.0 ? per_s : std::min(1.0, per_s / units_[type]);
}

void PoolsModel::add_totals() {
  std::vector<std::vector<std::vector<Milp::Term>>> sums(types_.size());
  for (auto& row : sums) row.resize(problem_.modes.size());
  for (const Group& group : groups_) sums[group.where.type][group.where.mode].push_back({group.workers, 1.0});
  totals_.assign(types_.size(), std::vector<int>(problem_.modes.size(), -1));
  for (std::size_t r = 0; r < types_.size(); ++r) {
    for (std::size_t m = 0; m < problem_.modes.size(); ++m) {
      auto& terms = sums[r][m];
      if (terms.empty()) continue;
      totals_[r][m] = program_.variable(0, kNoLimit, 0.0, Domain::Integer);
      terms.push_back({totals_[r][m], -1.0});
      total_rows_.push_back(program_.row(0.0, 0.0, terms));
    }
  }
}

void PoolsModel::add_demand(double alpha, bool shedding) {
  for (std::size_t r = 0; r < types_.size(); ++r) {
    std::vector<double> usable(problem_.modes.size(), 0.0);
    std::vector<Milp::Term> load, capacity, of_counts;
    for (const Group& group : groups_) {
      if (group.where.type != r) continue;
      usable[group.where.mode] = group.usable;
      if (group.load >= 0) load.push_back({group.load, 1.0});
      if (group.usable > 0.0) of_counts.push_back({group.workers, group.usable});
    }
    for (std::size_t m = 0; m < problem_.modes.size(); ++m) {
      if (totals_[r][m] >= 0 && usable[m] > 0.0) capacity.push_back({totals_[r][m], usable[m]});
    }
    demand_.push_back((published() ? alpha * peak_demand(types_[r]) : mean_demand(types_[r])) / units_[r]);
    beyond_.push_back(0.0);
    if (shedding) {
      // What all GPUs together do not carry of it is no question for the solver: a demand above all others would hide
      // them behind its tolerance, and have its requests served before theirs, as they are more.
      double most = 0.0;
      for (const Group& group : groups_) {
        if (group.where.type == r) most += most_workers(group.where.site, group.where.mode) * group.usable;
      }
      beyond_[r] = std::max(0.0, demand_[r] - most);
      demand_[r] = std::min(demand_[r], most);
      shed_.push_back(program_.variable(0, demand_[r], 0.0));
      load.push_back({shed_[r], 1.0});
      capacity.push_back({shed_[r], 1.0});
    }
    // In Wattle capacity follows from load and its limits, but only rows over totals cut well. Load equals demand:
    // where intensity is negative, more of it would earn.
    if (shedding) of_counts.push_back({shed_[r], 1.0});
    capacity_of_totals_.push_back(program_.row(demand_[r], kNoLimit, capacity));
    capacity_of_counts_.push_back(program_.row(-kNoLimit, kNoLimit, of_counts));
    demand_rows_.push_back(published() ? capacity_of_totals_[r] : program_.row(demand_[r], demand_[r], load));
  }
}

/// What may be computed at some sites alone is carried there: load, in Published capacity. What is shed counts as
/// carried anywhere.
void PoolsModel::add_kept() {
  kept_rows_.resize(types_.size());
  for (std::size_t r = 0; r < types_.size(); ++r) {
    for (const KeptUnion& kept : kept_unions(types_[r])) {
      std::vector<Milp::Term> terms;
      for (const Group& group : groups_) {
        if (group.where.type != r || !kept.sites[group.where.site]) continue;
        if (group.load >= 0) terms.push_back({group.load, 1.0});
        if (group.load < 0 && group.usable > 0.0) terms.push_back({group.workers, group.usable});
      }
      if (!shed_.empty()) terms.push_back({shed_[r], 1.0});
      const double least = kept.share * (demand_[r] + beyond_[r]) - beyond_[r];
      kept_rows_[r].push_back({program_.row(least, kNoLimit, terms), least});
    }
  }
}

void PoolsModel::add_capacity() {
  capacity_rows_.resize(kinds_.size());
  for (std::size_t c = 0; c < kinds_.size(); ++c) {
    for (std::size_t n = 0; n < problem_.sites.size(); ++n) {
      for (const GpuLimit& limit : limits_[n]) {
        if (limit.kind != c) continue;
        std::vector<Milp::Term> used;
        for (const Group& group : groups_) {
          const int needs = limit.needs(problem_.modes[group.where.mode]);
          if (group.where.site == n && needs > 0) used.push_back({group.workers, static_cast<double>(needs)});
        }
        if (used.empty()) continue;
        const auto gpus = static_cast<double>(limit.gpus);
        capacity_rows_[c].push_back({program_.row(-kNoLimit, gpus, used), gpus});
      }
    }
  }
}

void PoolsModel::add_starts(const JouleWeights& weights, const PoolsPlan* previous) {
  if (previous == nullptr || options_.start_time <= Span()) return;
  for (std::size_t n = 0; n < problem_.sites.size(); ++n) {
    for (std::size_t m = 0; m < problem_.modes.size(); ++m) {
      // A worker keeps its engine when its pool changes: what counts is the mode, whatever type it served.
      Start start{n, m, -1, 0};
      for (const WorkerPool& pool : previous->pools) {
        if (pool.site == n && pool.mode == m) start.had += pool.workers;
      }
      std::vector<Milp::Term> terms;
      Watts idle;
      for (const Group& group : groups_) {
        if (group.where.site != n || group.where.mode != m) continue;
        terms.push_back({group.workers, 1.0});
        idle = std::max(idle, types_[group.where.type].ratings[m]->idle);
      }
      if (terms.empty()) continue;
      const double cost = idle.value() * options_.start_time.seconds() * weights.cost_weight(n, 0);
      start.variable = program_.variable(0, kNoLimit, cost);
      terms.push_back({start.variable, -1.0});
      program_.row(-kNoLimit, static_cast<double>(start.had), terms);
      starts_.push_back(start);
    }
  }
}

void PoolsModel::put(Form form) {
  const bool counts = form == Form::Counts;
  for (const Group& group : groups_) {
    program_.set_domain(group.workers, form == Form::Totals ? Domain::Continuous : Domain::Integer);
    if (group.load < 0) continue;
    program_.set_cost(group.workers, counts ? even_cost(group) : group.cost);
    program_.set_cost(group.load, counts ? 0.0 : group.load_cost);
  }
  for (const int row : total_rows_) {
    if (counts) {
      free_row(row);
    } else {
      program_.set_row_bounds(row, 0.0, 0.0);
    }
  }
  for (std::size_t r = 0; r < types_.size(); ++r) {
    if (counts && !published()) {
      free_row(demand_rows_[r]);
    } else if (!published()) {
      program_.set_row_bounds(demand_rows_[r], demand_[r], demand_[r]);
    }
    program_.set_row_bounds(capacity_of_totals_[r], counts ? -kNoLimit : demand_[r], kNoLimit);
    program_.set_row_bounds(capacity_of_counts_[r], counts ? demand_[r] : -kNoLimit, kNoLimit);
  }
}

double PoolsModel::even_cost(const Group& group) const {
  constexpr double kLeastShare = 1e-3;  // a worker must not earn by being there
  return published() ? group.cost : std::max(group.cost + group.usable * group.load_cost, kLeastShare * group.cost);
}

std::vector<double> PoolsModel::round_up(const std::vector<double>& values) const {
  constexpr double kWhole = 1e-6;
  std::vector<double> rounded = values;
  std::vector<double> left = demand_;
  std::vector<std::vector<GpuLimit>> spare = limits_;
  const auto add = [&](const Group& group, int workers) {
    rounded[static_cast<std::size_t>(group.workers)] += workers;
    left[group.where.type] -= workers * group.usable;
    for (GpuLimit& limit : spare[group.where.site]) {
      limit.gpus -= workers * limit.needs(problem_.modes[group.where.mode]);
    }
  };
  for (const Group& group : groups_) {
    double& count = rounded[static_cast<std::size_t>(group.workers)];
    const int whole = static_cast<int>(std::floor(count + kWhole));
    count = 0.0;
    add(group, whole);
  }
  while (std::ranges::any_of(left, [](double amount) { return amount > kWhole; })) {
    const Group* best = nullptr;
    double best_price = kNoLimit;
    for (const Group& group : groups_) {
      const double useful = std::min(left[group.where.type], group.usable);
      if (useful <= kWhole || even_cost(group) / useful >= best_price) continue;
      const auto fits = [&](const GpuLimit& limit) {
        return limit.needs(problem_.modes[group.where.mode]) <= limit.gpus;
      };
      if (!std::ranges::all_of(spare[group.where.site], fits)) continue;
      best = &group;
      best_price = even_cost(group) / useful;
    }
    if (best == nullptr) return {};
    add(*best, 1);
  }
  return rounded;
}

double PoolsModel::most_workers(std::size_t site, std::size_t mode) const {
  double most = kManyWorkers;
  for (const GpuLimit& limit : limits_[site]) {
    const int needs = limit.needs(problem_.modes[mode]);
    if (needs > 0) most = std::min(most, static_cast<double>(limit.gpus / needs));
  }
  return most;
}

std::vector<std::size_t> PoolsModel::sites_to_mend(const std::vector<double>& values) const {
  struct Rank {
    int group = 1;  // 0 broken, 1 with GPUs to spare, 2 full
    double cost = kNoLimit;
    std::size_t site = 0;
    auto operator<=>(const Rank&) const = default;
  };
  std::vector<Rank> ranks(problem_.sites.size());
  std::vector<std::vector<double>> used(problem_.sites.size(), std::vector<double>(kinds_.size(), 0.0));
  constexpr double kWhole = 1e-6;
  for (const Group& group : groups_) {
    const double workers = values[static_cast<std::size_t>(group.workers)];
    Rank& rank = ranks[group.where.site];
    rank.cost = std::min(rank.cost, program_.cost(group.workers));
    if (std::abs(workers - std::round(workers)) > kWhole) rank.group = 0;
    for (std::size_t c = 0; c < kinds_.size(); ++c) {
      used[group.where.site][c] += workers * problem_.modes[group.where.mode].gpus[c];
    }
  }
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < ranks.size(); ++n) {
    ranks[n].site = n;
    bool spare = false;
    for (std::size_t c = 0; c < kinds_.size(); ++c) spare = spare || used[n][c] + 1.0 <= problem_.sites[n].gpus[c];
    if (ranks[n].group == 1 && !spare) ranks[n].group = 2;
  }
  std::ranges::sort(ranks);
  for (const Rank& rank : ranks) order.push_back(rank.site);
  return order;
}

void PoolsModel::hold_sites(const std::vector<double>* values, std::span<const std::size_t> free) {
  std::vector<bool> is_free(problem_.sites.size(), values == nullptr);
  for (const std::size_t site : free) is_free[site] = true;
  for (const Group& group : groups_) {
    if (is_free[group.where.site]) {
      program_.set_bounds(group.workers, 0.0, most_workers(group.where.site, group.where.mode));
    } else {
      const double at = std::round((*values)[static_cast<std::size_t>(group.workers)]);
      program_.set_bounds(group.workers, at, at);
    }
  }
}

void PoolsModel::price_after_shedding(double shares) {
  for (std::size_t i = 0; i < costs_.size(); ++i) program_.set_cost(static_cast<int>(i), costs_[i]);
  // Above the solver's own tolerance, which grows with the numbers: bounds tightened to less cross, and Clp aborts.
  constexpr double kSlack = 1e-6;
  program_.set_row_bounds(shed_row_, -kNoLimit, shares + kSlack * std::max(1.0, shares));
}

double PoolsModel::shed(std::size_t type, const std::vector<double>& values) const {
  return shed_.empty() ? 0.0 : units_[type] * (beyond_[type] + values[static_cast<std::size_t>(shed_[type])]);
}

std::vector<double> PoolsModel::start_from(const PoolsPlan& plan) const {
  std::vector<double> start(static_cast<std::size_t>(program_.variables()), 0.0);
  std::vector<double> usable(types_.size(), 0.0);
  const auto at = [&](int variable) -> double& { return start[static_cast<std::size_t>(variable)]; };
  int placed = 0, planned = 0;
  for (const WorkerPool& pool : plan.pools) planned += pool.workers;
  for (const Group& group : groups_) {
    for (const WorkerPool& pool : plan.pools) {
      if (pool.site != group.where.site || pool.type != group.where.type || pool.mode != group.where.mode) continue;
      at(group.workers) = pool.workers;
      at(totals_[pool.type][pool.mode]) += pool.workers;
      usable[pool.type] += group.usable * pool.workers;
      placed += pool.workers;
    }
  }
  if (placed != planned) return {};
  for (std::size_t r = 0; r < types_.size(); ++r) {
    if (usable[r] < demand_[r]) return {};
  }
  for (const Group& group : groups_) {
    if (group.load < 0 || at(group.workers) <= 0.0) continue;
    const std::size_t r = group.where.type;
    at(group.load) = demand_[r] * group.usable * at(group.workers) / usable[r];
  }
  for (const Start& s : starts_) {
    double workers = 0.0;
    for (const Group& group : groups_) {
      if (group.where.site == s.site && group.where.mode == s.mode) workers += at(group.workers);
    }
    at(s.variable) = std::max(0.0, workers - s.had);
  }
  return start;
}

bool PoolsModel::has_rows(std::size_t group) const {
  return group < types_.size() ? demand_[group] > 0.0 : !capacity_rows_[group - types_.size()].empty();
}

void PoolsModel::enforce(std::size_t group, bool on) {
  if (group < types_.size()) {
    const double asked = on ? demand_[group] : 0.0;
    if (!published()) program_.set_row_bounds(demand_rows_[group], asked, demand_[group]);
    program_.set_row_bounds(capacity_of_totals_[group], asked, kNoLimit);
    for (const KeptRow& kept : kept_rows_[group]) {
      program_.set_row_bounds(kept.row, on ? kept.least : -kNoLimit, kNoLimit);
    }
    return;
  }
  const std::size_t kind = group - types_.size();
  for (const LimitRow& row : capacity_rows_[kind]) {
    program_.set_row_bounds(row.row, -kNoLimit, on ? row.gpus : kNoLimit);
  }
  for (const Group& workers : groups_) {
    if (problem_.modes[workers.where.mode].gpus[kind] == 0) continue;
    const double most = on ? most_workers(workers.where.site, workers.where.mode) : kManyWorkers;
    program_.set_bounds(workers.workers, 0.0, most);
  }
}

std::string PoolsModel::describe(std::size_t group, double alpha) const {
  if (group < types_.size()) {
    const bool served =
        std::ranges::any_of(groups_, [&](const Group& g) { return g.where.type == group && g.usable > 0.0; });
    return served ? fmt::format("demand of {} ({:.4g}/s x {:.4g}{})", types_[group].name, peak_demand(types_[group]),
                                alpha, types_[group].kept.empty() ? "" : ", some of it kept at sites")
                  : no_mode_serves(types_[group], problem_.modes);
  }
  const std::size_t kind = group - types_.size();
  int gpus = 0;
  bool in_nodes = false;
  for (std::size_t n = 0; n < problem_.sites.size(); ++n) {
    gpus += problem_.sites[n].gpus[kind];
    in_nodes =
        in_nodes || std::ranges::any_of(limits_[n], [kind](const GpuLimit& l) { return l.kind == kind && l.size > 1; });
  }
  return fmt::format("{} GPUs ({} in all{})", kinds_[kind], gpus, in_nodes ? ", as their nodes hold them" : "");
}

}  // namespace wattle::plan
