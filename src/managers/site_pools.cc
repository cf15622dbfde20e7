#include "managers/site_pools.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"

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
      up_(setup_.nodes.size(), true) {
  WATTLE_CHECK(setup_.problem.partitions.size() == 1, "one partition: request classes are fixed in a run");
  WATTLE_CHECK(options_.slot > Span() && options_.epoch >= options_.slot, "an epoch has at least one slot");
  setup_.problem.slot = options_.slot;
  count_gpus();
  const std::size_t classes = setup_.problem.partitions[0].types.size();
  peaks_.resize(classes);
  rising_.resize(classes, 0.0);
  // Modes that no shape stands for at any site are not used; a site that lacks one of them has no use for its GPUs
  // there.
  for (auto& type : setup_.problem.partitions[0].types) {
    for (std::size_t m = 0; m < type.ratings.size(); ++m) {
      const bool anywhere = std::ranges::any_of(setup_.shapes, [&](const auto& of) { return of[m].has_value(); });
      if (!anywhere) type.ratings[m].reset();
    }
  }
}

void SitePools::hear(const policy::ScalingView& view) {
  if (!begun_) {
    begun_ = true;
    slot_end_ = view.now + options_.slot;
    next_ = view.now;
    for (std::size_t c = 0; c < peaks_.size(); ++c) {
      if (c < setup_.demand_at_start.size()) peaks_[c].push_back(setup_.demand_at_start[c]);
    }
    grams_.begin(view.now);
    usd_.begin(view.now);
    return;  // the rate is of a time before anything was asked
  }
  for (std::size_t c = 0; c < std::min(rising_.size(), view.rate_per_s.size()); ++c) {
    rising_[c] = std::max(rising_[c], view.rate_per_s[c]);
  }
  while (view.now >= slot_end_) end_slot(slot_end_);
}

void SitePools::end_slot(Instant at) {
  ++slots_;
  for (std::size_t c = 0; c < peaks_.size(); ++c) {
    peaks_[c].push_back(rising_[c]);
    rising_[c] = 0.0;
  }
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
  }
  if (changed) count_gpus();
  return changed;
}

void SitePools::fill_demand(std::size_t slots) {
  auto& types = setup_.problem.partitions[0].types;
  auto rows = carried_on(setup_.traffic.get(), peaks_, slots, options_.least_history);
  for (std::size_t c = 0; c < std::min(setup_.expected.size(), rows.size()); ++c) {
    const auto& expected = setup_.expected[c];
    for (std::size_t t = 0; t < slots && !expected.empty(); ++t) {
      rows[c][t] = expected[std::min(slots_ + t, expected.size() - 1)];
    }
  }
  for (std::size_t c = 0; c < types.size(); ++c) {
    types[c].demand_per_s.clear();
    for (const double peak : rows[c]) {
      types[c].demand_per_s.push_back(std::isfinite(peak) ? std::max(0.0, peak / options_.beta) : 0.0);
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
  if (!options_.cleanest) return plan::plan_pools(some, planning, previous);
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
  plan::PoolsOptions planning = options_.planning;
  const bool all_known = fill_electricity(slots, now, planning.objective);
  auto made = planned(planning);
  if (!made || !made->found()) {
    reason_ = plans_ > 0 ? "no plan found: the one before stays" : "no plan found";
    problem_ = made ? made->reason : made.error().message();
    return;
  }
  newest_ = std::move(*made);
  ++plans_;
  if (all_known) reason_ = reason_of(newest_.status, planning.objective);
  problem_ = newest_.status == plan::PoolsStatus::Planned ? "" : newest_.reason;
  current_ = translated();
}

Plan SitePools::translated() const {
  Plan plan;
  auto pools = newest_.pools;
  // Largest first: what is smaller finds room on nodes beside them, and not they beside it.
  const auto gpus = [this](const plan::WorkerPool& pool) {
    return std::ranges::max(setup_.problem.modes[pool.mode].gpus);
  };
  std::ranges::stable_sort(pools, std::greater{}, gpus);
  for (const auto& pool : pools) {
    const auto shape = setup_.shapes[pool.site][pool.mode];
    if (shape) plan.instances.push_back({*shape, pool.workers, {}, PoolId(static_cast<std::int32_t>(pool.type))});
  }
  for (std::size_t c = 0; options_.pooled && c < peaks_.size(); ++c) {
    plan.weights.push_back({ClassId(static_cast<std::int32_t>(c)), PoolId(0), 1.0});
  }
  if (options_.pooled) return plan;
  std::vector<bool> served(peaks_.size(), false);
  for (const auto& pool : newest_.pools) served[pool.type] = true;
  plan.weights = weights_of_own_pools(served);
  return plan;
}

Plan SitePools::plan(const policy::ScalingView& view) {
  hear(view);
  const bool changed = sites_changed(view);
  const bool due = view.now >= next_ && (options_.replans || plans_ == 0);
  if (changed || due) {
    make(view.now);
    if (view.now >= next_) next_ = view.now + options_.epoch;
  }
  Plan plan = current_;
  plan.reason = reason_;
  plan.problem = problem_;
  if (view.given != nullptr) plan.given = *view.given;
  return plan;
}

}  // namespace wattle::managers
