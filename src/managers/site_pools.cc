#include "managers/site_pools.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace wattle::managers {

namespace {

/// The steps ahead: the forecaster's where it has learned enough, else the last known value of each series.
predict::Rows ahead(predict::Forecaster* forecaster, const std::vector<std::vector<double>>& past, std::size_t horizon,
                    std::size_t least) {
  predict::Panel panel;
  for (const auto& one : past) panel.series.emplace_back(one);
  predict::Rows rows;
  if (forecaster != nullptr && panel.steps() >= std::max(least, forecaster->context())) {
    if (forecaster->fit(panel)) rows = forecaster->forecast(panel.last(forecaster->context()), horizon);
  }
  if (rows.size() != past.size()) rows.assign(past.size(), std::vector<double>(horizon, predict::kUnknown));
  for (std::size_t i = 0; i < past.size(); ++i) {
    const std::vector<double> known = predict::filled(past[i]);
    if (known.empty()) continue;
    for (double& value : rows[i]) value = std::isfinite(value) ? value : known.back();
  }
  return rows;
}

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

const char* reason_of(plan::PoolsStatus status) {
  switch (status) {
    case plan::PoolsStatus::Planned:
      return "pools of least carbon for the next epoch";
    case plan::PoolsStatus::Relaxed:
      return "margin relaxed: the sites cannot keep it";
    case plan::PoolsStatus::Shed:
      return "the sites cannot carry the demand: as much as they can";
    case plan::PoolsStatus::Infeasible:
    case plan::PoolsStatus::Unsolved:
      break;
  }
  return "no plan found: the one before stays";
}

}  // namespace

SitePools::SitePools(SitePoolsSetup setup, const SitePoolsOptions& options)
    : setup_(std::move(setup)), options_(options) {
  WATTLE_CHECK(setup_.problem.partitions.size() == 1, "one partition: request classes are fixed in a run");
  WATTLE_CHECK(options_.slot > Span() && options_.epoch >= options_.slot, "an epoch has at least one slot");
  setup_.problem.slot = options_.slot;
  for (const auto& site : setup_.problem.sites) gpus_.push_back(site.gpus);
  const std::size_t classes = setup_.problem.partitions[0].types.size();
  peaks_.resize(classes);
  rising_.resize(classes, 0.0);
  grams_.resize(setup_.problem.sites.size());
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
    for (std::size_t n = 0; n < grams_.size(); ++n) {
      for (std::size_t back = setup_.past_slots + 1; back-- > 0;) {
        const Instant at = view.now - options_.slot * static_cast<std::int64_t>(back);
        const auto known = setup_.intensity ? setup_.intensity(n, at) : std::nullopt;
        grams_[n].push_back(known ? known->value() : predict::kUnknown);
      }
    }
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
  for (std::size_t n = 0; n < grams_.size(); ++n) {
    const auto known = setup_.intensity ? setup_.intensity(n, at) : std::nullopt;
    grams_[n].push_back(known ? known->value() : predict::kUnknown);
  }
  slot_end_ = at + options_.slot;
}

bool SitePools::sites_changed(const policy::ScalingView& view) {
  if (setup_.nodes.empty() || view.nodes.empty()) return false;
  auto now = gpus_;
  for (const NodeView& node : view.nodes) {
    const auto id = static_cast<std::size_t>(node.id.value());
    if (node.up || id >= setup_.nodes.size()) continue;
    int& left = now[setup_.nodes[id].site][setup_.nodes[id].kind];
    left = std::max(0, left - node.gpus);
  }
  bool changed = false;
  for (std::size_t n = 0; n < now.size(); ++n) {
    changed = changed || setup_.problem.sites[n].gpus != now[n];
    setup_.problem.sites[n].gpus = now[n];
  }
  return changed;
}

void SitePools::fill_demand(std::size_t slots) {
  auto& types = setup_.problem.partitions[0].types;
  auto rows = ahead(setup_.traffic.get(), peaks_, slots, options_.least_history);
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

bool SitePools::fill_intensity(std::size_t slots, Instant now) {
  bool known = true;
  auto rows = ahead(setup_.emissions.get(), grams_, slots, options_.least_history);
  for (std::size_t n = 0; n < grams_.size(); ++n) {
    // What is not known now is not known for the half hour to come, whatever was known before.
    const auto present = setup_.intensity ? setup_.intensity(n, now) : std::nullopt;
    known = known && present.has_value();
    std::ranges::rotate(rows[n], rows[n].end() - 1);  // what was forecast begins with the next slot
    if (present) rows[n].front() = present->value();
    for (std::size_t t = 1; present && setup_.intensity_is_given && t < slots; ++t) {
      const auto known_then = setup_.intensity(n, now + options_.slot * static_cast<std::int64_t>(t));
      rows[n][t] = known_then ? known_then->value() : rows[n][t - 1];
    }
  }
  for (std::size_t n = 0; n < grams_.size(); ++n) {
    known = known && std::ranges::all_of(rows[n], [](double g) { return std::isfinite(g); });
  }
  for (std::size_t n = 0; n < grams_.size(); ++n) {
    auto& intensity = setup_.problem.sites[n].intensity;
    intensity.clear();
    // The planner wants a number, which counts for nothing where carbon is left out.
    for (const double g : rows[n]) intensity.emplace_back(known ? g : 0.0);
  }
  return known;
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
  for (auto& site : some.sites) std::ranges::fill(site.gpus, 0);
  Result<plan::PoolsPlan> plan;
  for (const auto& [grams, n] : order) {
    some.sites[n].gpus = setup_.problem.sites[n].gpus;
    plan = plan::plan_pools(some, planning, previous);
    if (!plan || plan->status == plan::PoolsStatus::Planned) break;
  }
  return plan;
}

void SitePools::make(Instant now) {
  const auto slots = static_cast<std::size_t>(options_.epoch.ns() / options_.slot.ns());
  fill_demand(slots);
  plan::PoolsOptions planning = options_.planning;
  const bool known = fill_intensity(slots, now);
  const bool blind = !known && planning.objective.carbon > 0.0;
  if (blind) {
    planning.objective.carbon = 0.0;
    if (planning.objective.energy + planning.objective.cost <= 0.0) planning.objective.energy = 1.0;
  }
  auto made = planned(planning);
  if (!made || !made->found()) {
    reason_ = reason_of(plan::PoolsStatus::Unsolved);
    return;
  }
  newest_ = std::move(*made);
  ++plans_;
  reason_ = blind ? "an intensity is unknown: planned without carbon" : reason_of(newest_.status);
  current_ = translated();
}

Plan SitePools::translated() const {
  Plan plan;
  for (const auto& pool : newest_.pools) {
    const auto shape = setup_.shapes[pool.site][pool.mode];
    if (!shape) continue;
    plan.instances.push_back({*shape, pool.workers, {}, PoolId(static_cast<std::int32_t>(pool.type))});
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
  if (view.given != nullptr) plan.given = *view.given;
  return plan;
}

}  // namespace wattle::managers
