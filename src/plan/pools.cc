#include "plan/pools.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/pools_model.h"

namespace wattle::plan {

namespace {

std::unexpected<Error> wrong(std::string where, std::string what) {
  return bad_input(std::move(where), std::move(what));
}

Result<void> check_sites(const PoolsProblem& problem) {
  if (problem.sites.empty()) return wrong("sites", "there are none");
  const std::size_t slots = problem.sites[0].intensity.size();
  if (slots == 0) return wrong(problem.sites[0].name, "it has no intensity; the window needs at least one slot");
  for (const PoolSite& site : problem.sites) {
    if (site.gpus.size() != problem.kinds.size()) return wrong(site.name, "it needs one count of GPUs for each kind");
    if (std::ranges::any_of(site.gpus, [](int g) { return g < 0; }))
      return wrong(site.name, "a count of GPUs is negative");
    if (!site.modes.empty() && site.modes.size() != problem.modes.size()) {
      return wrong(site.name, "it says not of each mode whether it can be started there");
    }
    for (std::size_t c = 0; c < site.nodes.size(); ++c) {
      const auto& nodes = site.nodes[c];
      if (nodes.empty()) continue;
      if (c >= site.gpus.size() || std::ranges::any_of(nodes, [](int g) { return g < 0; }) ||
          std::accumulate(nodes.begin(), nodes.end(), 0) != site.gpus[c]) {
        return wrong(site.name, "the GPUs of its nodes are not those it has");
      }
    }
    if (site.intensity.size() != slots) {
      return wrong(site.name, fmt::format("its intensity has {} slots, {} has {}", site.intensity.size(),
                                          problem.sites[0].name, slots));
    }
    if (!site.price_usd_per_kwh.empty() && site.price_usd_per_kwh.size() != slots) {
      return wrong(site.name,
                   fmt::format("its price has {} slots, its intensity {}", site.price_usd_per_kwh.size(), slots));
    }
    const bool finite = std::ranges::all_of(site.intensity, [](GramsPerKwh i) { return std::isfinite(i.value()); }) &&
                        std::ranges::all_of(site.price_usd_per_kwh, [](double p) { return std::isfinite(p); });
    if (!finite) return wrong(site.name, "an intensity or price is not a finite number");
  }
  return {};
}

Result<void> check_rating(const WorkerRating& rating, const std::string& where) {
  const bool numbers = std::isfinite(rating.peak.value()) && std::isfinite(rating.idle.value()) &&
                       std::isfinite(rating.max_per_s) && rating.max_per_s >= 0.0;
  if (!numbers || rating.idle < Watts() || rating.peak < rating.idle) {
    return wrong(where, "a rating needs 0 <= idle <= peak watts and a finite rate of at least 0");
  }
  return {};
}

bool kept_is_sound(const PoolType& type, std::size_t sites) {
  double sum = 0.0;
  for (const KeptShare& kept : type.kept) {
    if (!(kept.share >= 0.0) || kept.sites.size() != sites) return false;
    sum += kept.share;
  }
  return type.kept.size() <= PoolType::kMostKept && sum <= 1.0 + 1e-9;
}

Result<void> check_partitions(const PoolsProblem& problem) {
  if (problem.partitions.empty()) return wrong("partitions", "there are none");
  const std::size_t slots = problem.sites[0].intensity.size();
  for (const RequestPartition& partition : problem.partitions) {
    if (partition.types.empty()) return wrong(partition.name, "it has no types");
    for (const PoolType& type : partition.types) {
      const std::string where = partition.name + " " + type.name;
      if (type.demand_per_s.size() != slots) {
        return wrong(where, fmt::format("its demand has {} slots, the intensity {}", type.demand_per_s.size(), slots));
      }
      const auto sound = [](double d) { return d >= 0.0 && d <= PoolType::kMostPerSecond; };
      const auto demand = std::ranges::find_if_not(type.demand_per_s, sound);
      if (demand != type.demand_per_s.end()) {
        return wrong(where, fmt::format("a demand is {:g} requests/s; it must be from 0 to {:g}", *demand,
                                        PoolType::kMostPerSecond));
      }
      if (type.ratings.size() != problem.modes.size())
        return wrong(where, "it needs one rating, or none, for each mode");
      if (!kept_is_sound(type, problem.sites.size())) {
        return wrong(where, fmt::format("at most {} shares are kept at sites, each at least 0, 1 in all at most, and "
                                        "each says of every site whether it may be there",
                                        PoolType::kMostKept));
      }
      for (std::size_t m = 0; m < type.ratings.size(); ++m) {
        if (!type.ratings[m]) continue;
        if (auto ok = check_rating(*type.ratings[m], where + " " + problem.modes[m].name); !ok) return ok;
      }
    }
  }
  return {};
}

Result<void> check(const PoolsProblem& problem, const PoolsOptions& options, const PoolsPlan* previous) {
  if (auto ok = check_sites(problem); !ok) return ok;
  for (const WorkerMode& mode : problem.modes) {
    if (mode.gpus.size() != problem.kinds.size() || std::ranges::any_of(mode.gpus, [](int g) { return g < 0; }) ||
        std::accumulate(mode.gpus.begin(), mode.gpus.end(), 0) == 0) {
      return wrong(mode.name, "a mode needs a count of GPUs for each kind, and one GPU at least");
    }
  }
  if (auto ok = check_partitions(problem); !ok) return ok;
  if (!(options.alpha >= 1.0 && options.alpha < 100.0)) {
    return wrong("alpha", fmt::format("is {}; it must be at least 1 and below 100", options.alpha));
  }
  const PoolsObjective& o = options.objective;
  const bool weights = o.carbon >= 0.0 && o.energy >= 0.0 && o.cost >= 0.0 && o.carbon + o.energy + o.cost > 0.0 &&
                       std::isfinite(o.carbon + o.energy + o.cost);
  if (!weights) return wrong("objective", "its weights must be at least 0, and one of them above");
  if (o.cost > 0.0 && std::ranges::any_of(problem.sites, [](const auto& s) { return s.price_usd_per_kwh.empty(); })) {
    return wrong("objective", "cost needs a price series for every site");
  }
  if (previous != nullptr) {
    if (previous->partition >= problem.partitions.size()) return wrong("previous plan", "its partition does not exist");
    for (const WorkerPool& pool : previous->pools) {
      if (pool.site >= problem.sites.size() || pool.mode >= problem.modes.size()) {
        return wrong("previous plan", "it names a site or mode that does not exist");
      }
    }
  }
  return {};
}

/// One partition's best plan so far.
struct Found {
  MilpSolution solution;
  std::vector<WorkerPool> pools;
  std::vector<double> shed_per_s;
};

class Planner {
 public:
  Planner(const PoolsProblem& problem, const PoolsOptions& options, const PoolsPlan* previous)
      : problem_(problem), options_(options), previous_(previous), weights_(problem, options.objective) {}

  PoolsPlan run() {
    if (attempt(options_.alpha, false, PoolsStatus::Planned)) return plan_;
    const double asked = options_.alpha;
    if (options_.formulation == PoolsFormulation::Published) {
      if (proven_) plan_.status = PoolsStatus::Infeasible;
      explain(0, asked, "no plan");
      return plan_;
    }
    if (asked > 1.0 && attempt(1.0, false, PoolsStatus::Relaxed)) {
      explain(plan_.partition, asked, fmt::format("margin relaxed from {:.4g} to 1", asked));
    } else if (attempt(1.0, true, PoolsStatus::Shed) && shed_by_type().empty()) {
      // A search that ended at a limit had missed it: all demand has its place.
      plan_.status = asked > 1.0 ? PoolsStatus::Relaxed : PoolsStatus::Planned;
      if (asked > 1.0) explain(plan_.partition, asked, fmt::format("margin relaxed from {:.4g} to 1", asked));
    } else if (plan_.found()) {
      explain(plan_.partition, asked, fmt::format("of mean demand {} shed", fmt::join(shed_by_type(), ", ")));
    }
    return plan_;
  }

 private:
  /// Plans every partition at this margin and keeps the best. False: none has a plan.
  bool attempt(double alpha, bool shedding, PoolsStatus status) {
    std::vector<std::pair<double, std::size_t>> order;  // by lower bound: later ones need not be solved
    for (std::size_t s = 0; s < problem_.partitions.size(); ++s) order.emplace_back(-kNoLimit, s);
    if (order.size() > 1 && !shedding) {
      for (auto& [bound, s] : order) {
        PoolsModel model(problem_, options_, weights_, s, previous_, alpha, false);
        const MilpSolution relaxed = solve(model.program(), {.relaxed = true});
        bound = relaxed.status == MilpStatus::Infeasible ? kNoLimit : relaxed.cost;
      }
      std::ranges::stable_sort(order);
    }
    bool any = false;
    double best_shed = kNoLimit, bound = kNoLimit;
    for (const auto& [lower, s] : order) {
      if (lower == kNoLimit) continue;
      if (any && lower >= plan_.objective) {
        bound = std::min(bound, lower);
        continue;
      }
      const Found found = plan_partition(s, alpha, shedding, any && !shedding ? worth_finding() : kNoLimit);
      plan_.nodes += found.solution.nodes;
      if (!found.solution.found()) {
        if (found.solution.status != MilpStatus::Infeasible)
          bound = std::min(bound, std::max(lower, found.solution.bound));
        if (any) {
          bound = std::min(bound, worth_finding());
          continue;
        }
        proven_ = proven_ && found.solution.status == MilpStatus::Infeasible;
        continue;
      }
      const double shed = std::accumulate(found.shed_per_s.begin(), found.shed_per_s.end(), 0.0);
      bound = std::min(bound, found.solution.bound);
      constexpr double kSameShed = 1e-6;
      const bool better = !any || shed < best_shed - kSameShed ||
                          (shed < best_shed + kSameShed && found.solution.cost < plan_.objective);
      if (!better) continue;
      any = true;
      best_shed = shed;
      adopt(found, s, alpha, status);
    }
    if (any) plan_.bound = shedding ? plan_.bound : std::min(bound, plan_.objective);
    return any;
  }

  /// A further partition must be better by half the gap to be worth the search.
  [[nodiscard]] double worth_finding() const {
    return plan_.objective - options_.relative_gap / 2.0 * std::abs(plan_.objective);
  }

  /// Only a plan whose objective is below `cutoff` is of interest.
  Found plan_partition(std::size_t partition, double alpha, bool shedding, double cutoff) {
    shedding_ = shedding;
    PoolsModel model(problem_, options_, weights_, partition, previous_, alpha, shedding);
    Found found;
    std::vector<double> start;
    if (previous_ != nullptr && previous_->partition == partition && !shedding) start = model.start_from(*previous_);
    if (shedding) {
      found.solution = optimise(model, {}, cutoff);
      if (!found.solution.found()) return found;
      model.price_after_shedding(found.solution.cost);
      start = found.solution.values;
    }
    found.solution = optimise(model, start, cutoff);
    if (!found.solution.found()) return found;
    const auto& values = found.solution.values;
    const auto& types = problem_.partitions[partition].types;
    std::vector<double> load(types.size(), 0.0);
    for (const auto& group : model.groups()) {
      WorkerPool pool = group.where;
      pool.workers = static_cast<int>(std::lround(values[static_cast<std::size_t>(group.workers)]));
      if (pool.workers == 0) continue;
      pool.load_per_s = group.load >= 0 ? model.unit(pool.type) * values[static_cast<std::size_t>(group.load)]
                                        : types[pool.type].ratings[pool.mode]->max_per_s * pool.workers;
      load[pool.type] += pool.load_per_s;
      found.pools.push_back(pool);
    }
    for (std::size_t r = 0; r < types.size(); ++r) found.shed_per_s.push_back(model.shed(r, values));
    // Loads are to add up exactly; Published routes by capacity.
    for (WorkerPool& pool : found.pools) {
      const double served = mean_demand(types[pool.type]) - found.shed_per_s[pool.type];
      if (load[pool.type] > 0.0) pool.load_per_s *= served / load[pool.type];
    }
    return found;
  }

  [[nodiscard]] MilpOptions milp_options() const {
    return {.solver = options_.solver,
            .relative_gap = options_.relative_gap,
            .nodes = options_.nodes,
            .time = options_.time,
            .preprocess = !shedding_};
  }

  /// Small programs at once. Large ones in two steps. First only the totals of each type and mode are whole: that
  /// program solves fast, its bound holds for the full one, and few counts come out broken. Then the counts are whole,
  /// and free at the sites with broken ones and at some with GPUs to spare, at more of them until the gap is closed.
  MilpSolution optimise(PoolsModel& model, const std::vector<double>& start, double cutoff) const {
    constexpr std::size_t kSmall = 300;  // groups
    MilpOptions options = milp_options();
    options.cutoff = cutoff;
    if (model.groups().size() <= kSmall) return solve(model.program(), options, start);
    options.relative_gap /= 2.0;  // one half for each step
    options.nodes = std::min(options_.nodes.value_or(kTotalsNodes), kTotalsNodes);
    model.put(PoolsModel::Form::Totals);
    const MilpSolution totals = solve(model.program(), options, start);
    model.put(PoolsModel::Form::Exact);
    if (!totals.found() || model.program().violation(totals.values) <= kWhole) return totals;
    return mend(model, totals);
  }

  MilpSolution mend(PoolsModel& model, const MilpSolution& totals) const {
    MilpOptions options = milp_options();
    options.relative_gap /= 2.0;
    options.nodes = std::min(options_.nodes.value_or(kMendNodes), kMendNodes);
    const std::vector<std::size_t> order = model.sites_to_mend(totals.values);
    MilpSolution best;
    int nodes = totals.nodes;
    if (const std::vector<double> rounded = model.round_up(totals.values); !rounded.empty()) {
      model.hold_sites(&rounded, {});
      best = solve(model.program(), options);
    }
    for (std::size_t count = kFirstMended;; count *= 2) {
      const std::size_t mended = std::min(count, order.size());
      model.put(PoolsModel::Form::Counts);
      model.hold_sites(&totals.values, std::span(order).first(mended));
      MilpSolution whole = solve(model.program(), options, best.found() ? best.values : std::vector<double>());
      nodes += whole.nodes;
      model.put(PoolsModel::Form::Exact);
      if (whole.found()) {  // these counts, and the loads that suit them best
        model.hold_sites(&whole.values, {});
        whole = solve(model.program(), options);
      }
      if (whole.found() && (!best.found() || whole.cost < best.cost)) best = std::move(whole);
      const bool closed = best.found() && best.cost - totals.bound <= options_.relative_gap * std::abs(best.cost);
      if (best.found()) best.status = closed ? MilpStatus::Optimal : MilpStatus::Feasible;
      // More sites never gave a better plan than these in programs of twenty and more; of few, all are freed.
      if (closed || mended == order.size() || (best.found() && order.size() > kFewSites)) break;
    }
    model.hold_sites(nullptr, {});
    best.bound = best.found() ? std::min(totals.bound, best.cost) : totals.bound;
    if (!best.found()) best.status = MilpStatus::Unsolved;
    best.nodes = nodes;
    return best;
  }

  void adopt(const Found& found, std::size_t partition, double alpha, PoolsStatus status) {
    plan_.status = status;
    plan_.partition = partition;
    plan_.pools = found.pools;
    plan_.objective = found.solution.cost;
    plan_.bound = found.solution.bound;
    plan_.alpha = alpha;
    plan_.shed_per_s = found.shed_per_s;
    plan_.reason =
        found.solution.status == MilpStatus::Optimal ? "optimal within the gap" : "best found within the limit";
    expect();
    plan_.started = count_started();
  }

  /// What each type sheds; empty: there is a place for all. What the solver's tolerance lets go is named only where
  /// nothing else is, and below the check's own tolerance is nothing.
  [[nodiscard]] std::vector<std::string> shed_by_type() const {
    constexpr double kTolerance = 1e-5, kNothing = 1e-6;
    auto texts = shed_above(kTolerance);
    return texts.empty() ? shed_above(kNothing) : texts;
  }
  /// `share`: of a type's mean demand.
  [[nodiscard]] std::vector<std::string> shed_above(double share) const {
    std::vector<std::string> texts;
    const auto& types = problem_.partitions[plan_.partition].types;
    for (std::size_t r = 0; r < types.size(); ++r) {
      const double shed = plan_.shed_per_s[r], mean = mean_demand(types[r]);
      if (shed > share * mean) texts.push_back(fmt::format("{:.4g} of {:.4g}/s of {}", shed, mean, types[r].name));
    }
    return texts;
  }

  /// What the plan should draw, emit and cost.
  void expect() {
    plan_.energy = {};
    plan_.carbon = {};
    plan_.cost = {};
    const auto& types = problem_.partitions[plan_.partition].types;
    for (const WorkerPool& pool : plan_.pools) {
      const PoolType& type = types[pool.type];
      const PoolSite& site = problem_.sites[pool.site];
      const WorkerRating& rating = *type.ratings[pool.mode];
      const double mean = mean_demand(type);
      for (std::size_t t = 0; t < site.intensity.size(); ++t) {
        double watts = rating.peak.value() * pool.workers;
        if (options_.formulation == PoolsFormulation::Wattle) {
          const double load = mean > 0.0 ? pool.load_per_s * type.demand_per_s[t] / mean : 0.0;
          watts = rating.idle.value() * pool.workers + (rating.peak - rating.idle).value() * load / rating.max_per_s;
        }
        const double joules = watts * problem_.slot.seconds();
        constexpr double kJoulesPerKwh = 3.6e6;
        plan_.energy += Joules(joules);
        plan_.carbon += GramsCo2(joules / kJoulesPerKwh * site.intensity[t].value());
        if (!site.price_usd_per_kwh.empty()) plan_.cost += Usd(joules / kJoulesPerKwh * site.price_usd_per_kwh[t]);
      }
    }
  }

  [[nodiscard]] int count_started() const {
    std::vector<std::vector<int>> change(problem_.sites.size(), std::vector<int>(problem_.modes.size(), 0));
    for (const WorkerPool& pool : plan_.pools) change[pool.site][pool.mode] += pool.workers;
    if (previous_ != nullptr) {
      for (const WorkerPool& pool : previous_->pools) change[pool.site][pool.mode] -= pool.workers;
    }
    int started = 0;
    for (const auto& row : change) {
      for (const int workers : row) started += std::max(0, workers);
    }
    return started;
  }

  /// Names an irreducible set of constraints that no plan satisfies together: each one is dropped for good if the rest
  /// still conflicts without it.
  void explain(std::size_t partition, double alpha, const std::string& outcome) {
    PoolsModel model(problem_, options_, weights_, partition, nullptr, alpha, false);
    MilpOptions question = milp_options();
    question.relaxed = true;
    for (int i = 0; i < model.program().variables(); ++i) model.program().set_cost(i, 0.0);
    if (solve(model.program(), question).status != MilpStatus::Infeasible) question.relaxed = false;
    if (!question.relaxed && solve(model.program(), question).status != MilpStatus::Infeasible) {
      plan_.reason = outcome + ": the solver reached its limit before it found a plan with the margin asked for";
      return;
    }
    std::vector<std::size_t> conflict;
    for (std::size_t group = 0; group < model.constraint_groups(); ++group) {
      if (!model.has_rows(group)) continue;
      model.enforce(group, false);
      if (solve(model.program(), question).status == MilpStatus::Infeasible) continue;
      model.enforce(group, true);
      conflict.push_back(group);
    }
    for (const std::size_t group : conflict) plan_.binding.push_back(model.describe(group, alpha));
    plan_.reason = fmt::format("{}: {} cannot all hold", outcome, fmt::join(plan_.binding, " and "));
  }

  static constexpr double kWhole = 1e-6;
  /// Of each program of a large problem; more do not pay.
  static constexpr int kTotalsNodes = 100, kMendNodes = 300;
  static constexpr std::size_t kFirstMended = 8, kFewSites = 12;
  const PoolsProblem& problem_;
  const PoolsOptions& options_;
  const PoolsPlan* previous_;
  JouleWeights weights_;
  PoolsPlan plan_;
  bool shedding_ = false;  ///< the program at hand gives up as little demand as can be
  bool proven_ = true;     ///< every partition without a plan was proven to have none
};

}  // namespace

std::vector<KeptUnion> kept_unions(const PoolType& type) {
  std::vector<KeptUnion> unions;
  for (std::size_t mask = 1; mask < std::size_t{1} << type.kept.size(); ++mask) {
    KeptUnion& one = unions.emplace_back();
    for (std::size_t k = 0; k < type.kept.size(); ++k) {
      if (((mask >> k) & 1U) == 0) continue;
      one.share += type.kept[k].share;
      one.sites.resize(type.kept[k].sites.size(), false);
      for (std::size_t n = 0; n < one.sites.size(); ++n) one.sites[n] = one.sites[n] || type.kept[k].sites[n];
    }
  }
  return unions;
}

std::string_view pools_status_name(PoolsStatus status) {
  switch (status) {
    case PoolsStatus::Planned:
      return "planned";
    case PoolsStatus::Relaxed:
      return "relaxed";
    case PoolsStatus::Shed:
      return "shed";
    case PoolsStatus::Infeasible:
      return "infeasible";
    case PoolsStatus::Unsolved:
      return "unsolved";
  }
  return "unsolved";
}

Result<PoolsPlan> plan_pools(const PoolsProblem& problem, const PoolsOptions& options, const PoolsPlan* previous) {
  if (auto ok = check(problem, options, previous); !ok) return std::unexpected(ok.error());
  return Planner(problem, options, previous).run();
}

}  // namespace wattle::plan
