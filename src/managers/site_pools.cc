#include "managers/site_pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "managers/taken_in.h"

namespace wattle::managers {

namespace {

/// Workers that take any request, as one type: they carry and draw what the expected mix of requests makes of them.
plan::PoolType mixed(const std::vector<plan::PoolType>& types) {
  plan::PoolType mix;
  mix.name = "any";
  mix.kept = types.front().kept;  // the same tenants' shares are in all types
  mix.demand_per_s.assign(types.front().demand_per_s.size(), 0.0);
  double all = 0.0;
  std::vector<double> shares;
  for (const auto& type : types) {
    double sum = 0.0;
    for (std::size_t t = 0; t < type.demand_per_s.size(); ++t) {
      mix.demand_per_s[t] += type.demand_per_s[t];
      sum += type.demand_per_s[t];
    }
    shares.push_back(sum);
    all += sum;
  }
  for (double& share : shares) share = all > 0.0 ? share / all : 1.0 / static_cast<double>(shares.size());
  for (std::size_t m = 0; m < types.front().ratings.size(); ++m) {
    double busy = 0.0, peak = 0.0, idle = 0.0;  // of a worker's time, a request of the mix; joules likewise
    bool serves = true;
    for (std::size_t r = 0; r < types.size() && serves; ++r) {
      if (shares[r] == 0.0) continue;
      const auto& rating = types[r].ratings[m];
      serves =
          rating && rating->max_per_s > 0.0 && rating->ttft <= types[r].ttft_limit && rating->tbt <= types[r].tbt_limit;
      if (!serves) break;
      const double time = shares[r] / rating->max_per_s;
      busy += time;
      peak += time * rating->peak.value();
      idle += time * rating->idle.value();
    }
    auto& rating = mix.ratings.emplace_back();
    if (serves) rating = {.peak = Watts(peak / busy), .idle = Watts(idle / busy), .max_per_s = 1.0 / busy};
  }
  return mix;
}

const char* reason_of(plan::PoolsStatus status, const plan::PoolsObjective& objective) {
  switch (status) {
    case plan::PoolsStatus::Planned:
      if (objective.energy + objective.cost <= 0.0) return "pools of least carbon for the next epoch";
      if (objective.carbon + objective.cost <= 0.0) return "pools of least energy for the next epoch";
      if (objective.carbon + objective.energy <= 0.0) return "pools of least cost for the next epoch";
      return "pools of the least mixture of carbon, energy and cost for the next epoch";
    case plan::PoolsStatus::Relaxed:
      return "margin relaxed: the sites cannot keep it";
    case plan::PoolsStatus::Shed:
      return "the sites cannot carry the demand: as much as they can";
    case plan::PoolsStatus::Infeasible:
    case plan::PoolsStatus::Unsolved:
      break;
  }
  return "no plan found";
}

SiteSeries::Options of_series(const SitePoolsSetup& setup, const SitePoolsOptions& options) {
  return {.sites = setup.problem.sites.size(),
          .slot = options.slot,
          .past_slots = setup.past_slots,
          .least_history = options.least_history,
          .given = setup.outlook_is_given};
}

}  // namespace

SitePools::SitePools(SitePoolsSetup setup, const SitePoolsOptions& options)
    : setup_(std::move(setup)),
      options_(options),
      grams_(std::move(setup_.intensity), std::move(setup_.emissions), of_series(setup_, options)),
      usd_(std::move(setup_.price), std::move(setup_.prices), of_series(setup_, options)),
      reserve_(setup_.may_be_late, std::vector<std::size_t>(setup_.may_be_late.size(), 0), options.reserve),
      up_(setup_.nodes.size(), true) {
  WATTLE_CHECK(options_.slot > Span() && options_.epoch >= options_.slot, "an epoch has at least one slot");
  setup_.problem.slot = options_.slot;
  count_gpus();
  auto& partitions = setup_.problem.partitions;
  if (setup_.type_of.empty()) {
    WATTLE_CHECK(partitions.size() == 1, "several partitions say which types their classes are of");
    setup_.type_of.emplace_back(partitions[0].types.size());
    std::iota(setup_.type_of[0].begin(), setup_.type_of[0].end(), std::size_t{0});
  }
  WATTLE_CHECK(setup_.type_of.size() == partitions.size(), "each partition has its classes");
  WATTLE_CHECK(partitions.size() == 1 || !options_.pooled, "who tells no classes apart has no partitions");
  std::size_t series = 0;
  for (const auto& partition : partitions) {
    first_.push_back(series);
    series += partition.types.size();
  }
  peaks_.resize(series);
  rising_.resize(series, 0.0);
  of_class_.resize(setup_.type_of[0].size(), 0.0);
  // Modes are used at sites that have a shape of them; those that no site has say nothing of the leanest way, either.
  const auto forget_unusable = [this](std::vector<plan::PoolType>& types) {
    for (auto& type : types) {
      for (std::size_t m = 0; m < type.ratings.size(); ++m) {
        const bool anywhere = std::ranges::any_of(setup_.shapes, [&](const auto& of) { return of[m].has_value(); });
        if (!anywhere) type.ratings[m].reset();
      }
    }
  };
  for (std::size_t n = 0; n < setup_.shapes.size(); ++n) {
    auto& modes = setup_.problem.sites[n].modes;
    modes.clear();
    for (const auto& shape : setup_.shapes[n]) modes.push_back(shape.has_value());
  }
  for (auto& partition : partitions) forget_unusable(partition.types);
  forget_unusable(setup_.classes);
}

void SitePools::hear(const policy::ScalingView& view) {
  if (!begun_) {
    begun_ = true;
    slot_end_ = view.now + options_.slot;
    next_ = view.now;
    auto& start = setup_.demand_at_start;
    if (!start.empty()) {
      start.resize(of_class_.size(), 0.0);
      of_class_ = start;
      auto sums = by_series(start);
      for (std::size_t i = 0; i < peaks_.size(); ++i) peaks_[i].push_back(sums[i]);
    }
    grams_.begin(view.now);
    usd_.begin(view.now);
    return;  // the rate is of a time before anything was asked
  }
  std::vector<double> rates(view.rate_per_s.begin(), view.rate_per_s.end());
  rates.resize(of_class_.size(), 0.0);
  if (std::ranges::any_of(rates, [](double rate) { return rate > 0.0; })) of_class_ = rates;
  const auto sums = by_series(rates);
  for (std::size_t i = 0; i < rising_.size(); ++i) rising_[i] = std::max(rising_[i], sums[i]);
  while (view.now >= slot_end_) end_slot(slot_end_);
}

/// What comes of each type of each partition, where so much comes of each class.
std::vector<double> SitePools::by_series(const std::vector<double>& of_class) const {
  std::vector<double> sums(peaks_.size(), 0.0);
  for (std::size_t s = 0; s < setup_.type_of.size(); ++s) {
    for (std::size_t c = 0; c < of_class.size(); ++c) sums[series_of(s, setup_.type_of[s][c])] += of_class[c];
  }
  return sums;
}

void SitePools::end_slot(Instant at) {
  ++slots_;
  for (std::size_t i = 0; i < peaks_.size(); ++i) peaks_[i].push_back(std::exchange(rising_[i], 0.0));
  grams_.end_slot(at);
  usd_.end_slot(at);
  slot_end_ = at + options_.slot;
}

/// The sites' GPUs are those of their nodes that are up.
void SitePools::count_gpus() {
  if (setup_.nodes.empty()) return;
  for (auto& site : setup_.problem.sites) {
    site.gpus.assign(setup_.problem.kinds.size(), 0);
    site.nodes.assign(setup_.problem.kinds.size(), {});
  }
  for (std::size_t i = 0; i < setup_.nodes.size(); ++i) {
    const auto& node = setup_.nodes[i];
    if (!up_[i]) continue;
    setup_.problem.sites[node.site].gpus[node.kind] += node.gpus;
    setup_.problem.sites[node.site].nodes[node.kind].push_back(node.gpus);
  }
}

bool SitePools::sites_changed(const policy::ScalingView& view) {
  bool changed = false;
  for (const NodeView& node : view.nodes) {
    const auto id = static_cast<std::size_t>(node.id.value());
    if (id >= up_.size() || up_[id] == node.up) continue;
    up_[id] = node.up;
    changed = true;
    filling_ = filling_ || !node.up;
  }
  if (changed) count_gpus();
  return changed;
}

void SitePools::fill_demand(std::size_t slots) {
  auto rows = carried_on(setup_.traffic.get(), peaks_, slots, options_.least_history);
  for (std::size_t c = 0; c < std::min(setup_.expected.size(), rows.size()); ++c) {
    const auto& expected = setup_.expected[c];
    for (std::size_t t = 0; t < slots && !expected.empty(); ++t) {
      rows[c][t] = expected[std::min(slots_ + t, expected.size() - 1)];
    }
  }
  for (std::size_t c = 0; options_.out_of_turn && c < rows.size(); ++c) {
    for (double& row : rows[c]) row = std::isfinite(row) ? std::max(row, rising_[c]) : rising_[c];
  }
  for (std::size_t s = 0; s < first_.size(); ++s) {
    auto& types = setup_.problem.partitions[s].types;
    for (std::size_t t = 0; t < types.size(); ++t) {
      types[t].demand_per_s.clear();
      for (const double peak : rows[series_of(s, t)]) {
        types[t].demand_per_s.push_back(std::isfinite(peak) ? std::max(0.0, peak / options_.beta) : 0.0);
      }
    }
  }
}

/// A type is what its classes are, in the mix that came last.
void SitePools::rate_types() {
  if (setup_.classes.empty()) return;
  for (std::size_t s = 0; s < first_.size(); ++s) {
    auto& types = setup_.problem.partitions[s].types;
    for (std::size_t t = 0; t < types.size(); ++t) {
      std::vector<plan::PoolType> its;
      for (std::size_t c = 0; c < setup_.classes.size(); ++c) {
        if (setup_.type_of[s][c] != t) continue;
        its.push_back(setup_.classes[c]);
        its.back().demand_per_s = {of_class_[c]};
      }
      if (!its.empty()) types[t].ratings = mixed(its).ratings;
    }
  }
}

bool SitePools::fill_electricity(std::size_t slots, Instant now, plan::PoolsObjective& objective) {
  const auto grams = grams_.ahead(slots, now);
  const auto usd = usd_.ahead(slots, now);
  for (std::size_t n = 0; n < setup_.problem.sites.size(); ++n) {
    auto& site = setup_.problem.sites[n];
    // The planner wants an intensity, which counts for nothing where carbon is left out.
    site.intensity.assign(slots, GramsPerKwh(0.0));
    for (std::size_t t = 0; grams && t < slots; ++t) site.intensity[t] = GramsPerKwh((*grams)[n][t]);
    site.price_usd_per_kwh = usd ? (*usd)[n] : std::vector<double>();
  }
  const bool blind = !grams && objective.carbon > 0.0, unpriced = !usd && objective.cost > 0.0;
  if (blind) objective.carbon = 0.0;
  if (unpriced) objective.cost = 0.0;
  if (objective.carbon + objective.energy + objective.cost <= 0.0) objective.energy = 1.0;
  if (blind) reason_ = "an intensity is unknown: planned without carbon";
  if (unpriced) reason_ = "a price is unknown: planned without cost";
  if (blind && unpriced) reason_ = "an intensity and a price are unknown: planned without carbon and cost";
  return !blind && !unpriced;
}

plan::PoolsProblem SitePools::asked() const {
  plan::PoolsProblem problem = setup_.problem;
  auto& types = problem.partitions[0].types;
  if (options_.pooled) types = {mixed(types)};
  return problem;
}

Result<plan::PoolsPlan> SitePools::planned(const plan::PoolsOptions& planning) const {
  const plan::PoolsPlan* previous = plans_ > 0 ? &newest_ : nullptr;
  plan::PoolsProblem some = asked();
  if (!options_.cleanest) {
    auto plan = plan::plan_pools(some, planning, previous);
    if (!plan || plan->status != plan::PoolsStatus::Infeasible) return plan;
    // The release has no answer to that; a site that is cut off, or more load than there ever was, needs one.
    plan::PoolsOptions relaxed = planning;
    relaxed.formulation = plan::PoolsFormulation::Wattle;
    return plan::plan_pools(some, relaxed, previous);
  }
  // Sites from the cleanest on, one more at a time, until the demand is carried; all of them carry what they can.
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t n = 0; n < setup_.problem.sites.size(); ++n) {
    double sum = 0.0;
    for (const GramsPerKwh g : setup_.problem.sites[n].intensity) sum += g.value();
    order.emplace_back(sum, n);
  }
  std::ranges::sort(order);
  for (auto& site : some.sites) {
    std::ranges::fill(site.gpus, 0);
    site.nodes.clear();
  }
  Result<plan::PoolsPlan> plan;
  for (const auto& [grams, n] : order) {
    some.sites[n] = setup_.problem.sites[n];
    plan = plan::plan_pools(some, planning, previous);
    if (!plan || plan->status == plan::PoolsStatus::Planned) break;
  }
  return plan;
}

void SitePools::make(Instant now) {
  const auto slots = static_cast<std::size_t>(options_.epoch.ns() / options_.slot.ns());
  fill_demand(slots);
  rate_types();
  plan::PoolsOptions planning = options_.planning;
  for (const double reserve : reserve_.by_pool()) planning.alpha /= 1.0 - reserve;
  const bool all_known = fill_electricity(slots, now, planning.objective);
  auto made = planned(planning);
  if (!made || !made->found()) {
    reason_ = plans_ > 0 ? "no plan found: the one before stays" : "no plan found";
    problem_ = made ? made->reason : made.error().message();
    return;
  }
  newest_ = std::move(*made);
  rated_ = asked().partitions[newest_.partition].types;
  ++plans_;
  if (all_known) reason_ = reason_of(newest_.status, planning.objective);
  problem_ = newest_.status == plan::PoolsStatus::Planned ? "" : newest_.reason;
  // Nobody can stand anywhere: what was wanted before stays wanted, for when somebody can.
  auto before = std::move(current_.instances);
  current_ = translated();
  if (newest_.pools.empty()) current_.instances = std::move(before);
}

Plan SitePools::translated() {
  Plan plan;
  auto pools = newest_.pools;
  // Largest first: what is smaller finds room on nodes beside them, and not they beside it.
  const auto gpus = [this](const plan::WorkerPool& pool) {
    return std::ranges::max(setup_.problem.modes[pool.mode].gpus);
  };
  std::ranges::stable_sort(pools, std::greater{}, gpus);
  for (const auto& pool : pools) {
    const auto shape = setup_.shapes[pool.site][pool.mode];
    if (!shape) continue;
    plan.instances.push_back({*shape, pool.workers, {}, PoolId(static_cast<std::int32_t>(pool.type))});
    if (options_.weighs) plan.instances.back().weight = rated_[pool.type].ratings[pool.mode]->max_per_s;
  }
  const auto& type_of = setup_.type_of[newest_.partition];
  const std::size_t types = setup_.problem.partitions[newest_.partition].types.size();
  pool_of_.assign(types, PoolId(0));
  if (!options_.pooled) {
    std::vector<bool> served(types, newest_.pools.empty());  // by nobody: to be shed, each by its own name
    for (const auto& pool : newest_.pools) served[pool.type] = true;
    for (const PoolWeight& w : weights_of_own_pools(served)) {
      pool_of_[static_cast<std::size_t>(w.request_class.value())] = w.pool;
    }
  }
  for (std::size_t c = 0; c < type_of.size(); ++c) {
    plan.weights.push_back({ClassId(static_cast<std::int32_t>(c)), pool_of_[type_of[c]], 1.0});
  }
  return plan;
}

bool SitePools::all_serve(const policy::ScalingView& view) const {
  std::map<std::pair<std::size_t, PoolId>, std::int32_t> serving;
  for (const FleetMember& member : view.members) {
    if (member.phase == Phase::Serving) ++serving[{member.shape, member.pool}];
  }
  return !newest_.pools.empty() && std::ranges::all_of(current_.instances, [&](const PlanTarget& target) {
    return serving[{target.shape, target.pool.value_or(PoolId())}] >= target.count;
  });
}

/// Requests per second by pool, at the ratings: of the plan's workers, while some of them are missing of those that
/// serve.
std::vector<double> SitePools::carried(const policy::ScalingView& view) const {
  std::vector<double> per_s(rated_.size(), 0.0);
  const auto add = [&](std::size_t type, std::size_t mode, int workers) {
    if (type >= per_s.size()) return;
    const auto& rating = rated_[type].ratings[mode];
    if (rating) per_s[type] += workers * rating->max_per_s;
  };
  if (!filling_) {
    for (const auto& pool : newest_.pools) add(pool.type, pool.mode, pool.workers);
    return per_s;
  }
  for (const FleetMember& member : view.members) {
    if (member.phase != Phase::Serving) continue;
    for (const auto& of : setup_.shapes) {
      const auto mode = std::ranges::find(of, std::optional(member.shape));
      if (mode == of.end()) continue;
      add(static_cast<std::size_t>(member.pool.value()), static_cast<std::size_t>(mode - of.begin()), 1);
    }
  }
  return per_s;
}

/// Requests per second that come of the types of the partition in force. `load_is_known`: else it is what is expected.
std::vector<double> SitePools::by_type(const policy::ScalingView& view, bool load_is_known) const {
  const auto& types = setup_.problem.partitions[newest_.partition].types;
  const auto& type_of = setup_.type_of[newest_.partition];
  std::vector<double> of_type(types.size(), 0.0);
  for (std::size_t c = 0; load_is_known && c < std::min(type_of.size(), view.rate_per_s.size()); ++c) {
    of_type[type_of[c]] += view.rate_per_s[c];
  }
  for (std::size_t t = 0; !load_is_known && t < types.size(); ++t) of_type[t] = types[t].demand_per_s.front();
  return of_type;
}

std::vector<double> SitePools::by_pool(const std::vector<double>& of_type) const {
  std::vector<double> in_pool(rated_.size(), 0.0);
  for (std::size_t t = 0; t < of_type.size(); ++t) in_pool[pool_of(t)] += of_type[t];
  return in_pool;
}

/// More comes of a type than it was planned for, and to its pool than that carries. A plan that sheds has all there is.
bool SitePools::outgrown(const policy::ScalingView& view) const {
  if (!options_.out_of_turn || plans_ == 0 || filling_ || newest_.status == plan::PoolsStatus::Shed) return false;
  const auto& types = setup_.problem.partitions[newest_.partition].types;
  const auto of_type = by_type(view, true);
  const auto in_pool = by_pool(of_type), serve = carried(view);
  for (std::size_t t = 0; t < types.size(); ++t) {
    const double planned = std::ranges::max(types[t].demand_per_s) * options_.beta;
    if (of_type[t] > planned && in_pool[pool_of(t)] > serve[pool_of(t)]) return true;
  }
  return false;
}

/// Takes from the plan's weights what is not carried.
void SitePools::shed(Plan& plan, const policy::ScalingView& view, bool load_is_known) {
  if (filling_ && all_serve(view)) filling_ = false;
  if (plans_ == 0 || (!filling_ && newest_.status != plan::PoolsStatus::Shed)) return;
  const auto& types = setup_.problem.partitions[newest_.partition].types;
  const auto of_type = by_type(view, load_is_known);
  const auto in_pool = by_pool(of_type);
  const auto serve = carried(view);
  for (PoolWeight& w : plan.weights) {
    const auto pool = static_cast<std::size_t>(w.pool.value());
    w.weight = taken_in(serve[pool], in_pool[pool]);
  }
  for (std::size_t t = 0; t < types.size(); ++t) {
    const double lost = (1.0 - taken_in(serve[pool_of(t)], in_pool[pool_of(t)])) * of_type[t];
    if (lost <= 0.0) continue;
    plan.problem += fmt::format("{}{:.3g} of {:.3g}/s of {} refused{}", plan.problem.empty() ? "" : "; ", lost,
                                of_type[t], types[t].name, filling_ ? " until all that is planned serves" : "");
  }
}

Plan SitePools::plan(const policy::ScalingView& view) {
  const bool load_is_known = begun_;
  hear(view);
  if (view.turned_out != nullptr) reserve_.learn(*view.turned_out, {}, view.now);
  const bool changed = sites_changed(view);
  const bool due = view.now >= next_ && (options_.replans || plans_ == 0);
  if (changed || due || outgrown(view)) {
    make(view.now);
    if (view.now >= next_) next_ = view.now + options_.epoch;
  }
  Plan plan = current_;
  plan.reason = reason_;
  plan.problem = problem_;
  shed(plan, view, load_is_known);
  return plan;
}

}  // namespace wattle::managers
