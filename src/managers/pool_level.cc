#include "managers/pool_level.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "managers/taken_in.h"

namespace wattle::managers {

namespace {

PoolId pool_id(std::size_t pool) { return PoolId(static_cast<std::int32_t>(pool)); }

/// Whatever their times: those come over a wire, from another clock.
bool same(const std::optional<ClusterOrder>& a, const ClusterOrder& b) {
  return a && a->number == b.number && a->gpus == b.gpus && a->forwarded == b.forwarded;
}

}  // namespace

PoolLevel::PoolLevel(std::shared_ptr<const plan::LoadTable> table, std::vector<policy::Shape> shapes,
                     const HierarchyOptions& options)
    : table_(std::move(table)),
      shapes_(std::move(shapes)),
      options_(options),
      map_(*table_, options_.pools),
      history_(table_->classes.size(), options_.cluster.load),
      pools_(map_.pools()),
      mine_(map_.pools()) {
  WATTLE_CHECK(!shapes_.empty(), "a fleet has at least one shape");
  for (std::size_t p = 0; p < pools_.size(); ++p) managers_.emplace_back(pool_id(p), shapes_, options_.pool);
  std::iota(mine_.begin(), mine_.end(), std::size_t{0});
  history_.begin_with(options_.past);
}

int PoolLevel::largest() const { return std::ranges::max_element(shapes_, {}, &policy::Shape::gpus)->gpus; }

std::vector<FleetMember> PoolLevel::members_of(std::size_t pool, const policy::ScalingView& view) const {
  std::vector<FleetMember> members;
  for (const FleetMember& member : view.members) {
    if (member.pool == pool_id(pool) && member.phase == Phase::Serving && !member.changing) members.push_back(member);
  }
  return members;
}

/// The pool's instances so that they take so many GPUs more or fewer than it was given: nodes more as instances of the
/// largest shape; fewer by leaving out the largest that are too much, then the smallest. What its manager has left
/// without an instance stays so.
void PoolLevel::resize(std::size_t pool, int gpus) {
  Layout& wanted = pools_[pool].wanted;
  const auto used = [&] {
    int sum = 0;
    for (const auto& [tp, count] : wanted) sum += tp * count;
    return sum;
  };
  const int filled = gpus - std::max(0, pools_[pool].given.gpus - used());
  while (used() + largest() <= filled) ++wanted[largest()];
  for (const policy::Shape& shape : shapes_) {  // a rest that is no whole node (NodeRule::Whole)
    if (filled - used() >= shape.gpus && filled - used() < largest() && wanted[shape.gpus] == 0) ++wanted[shape.gpus];
  }
  while (used() > gpus) {
    int leave = 0;
    for (const auto& [tp, count] : wanted) {
      if (count == 0) continue;
      const bool whole = used() - tp >= gpus;
      if (leave == 0 || whole) leave = tp;
    }
    --wanted[leave];
  }
}

void PoolLevel::follow(const ClusterOrder& order) {
  for (const std::size_t p : mine_) {
    pools_[p].made = made_;
    resize(p, order.gpus[p]);
    pools_[p].given = {.pool = pool_id(p),
                       .gpus = order.gpus[p],
                       .load_per_s = order.load_per_s[p],
                       .least = {},
                       .most = {},
                       .until = order.until};
  }
}

/// Somebody planned before: the pools are to stay as they are.
void PoolLevel::take_over(const policy::ScalingView& view) {
  for (const std::size_t p : mine_) {
    for (const FleetMember& member : view.members) {
      if (member.pool == pool_id(p) && member.phase != Phase::Draining) ++pools_[p].wanted[shapes_[member.shape].gpus];
    }
  }
}

/// Where the cluster manager counted nodes on the best layout (NodeRule::Whole), not on the largest instances, they may
/// carry their load in no other. A pool in which nothing stands has nothing to re-shard and no load observed, so it
/// begins with that layout, for the load that its nodes were counted for.
void PoolLevel::begin(const policy::ScalingView& view, const ClusterOrder& order) {
  const auto problem = map_.problem(order.load_per_s, 0, Watts());
  for (const std::size_t p : mine_) {
    const auto there = [&](const FleetMember& m) { return m.pool == pool_id(p) && m.phase != Phase::Draining; };
    if (std::ranges::any_of(view.members, there)) continue;
    auto layout = managers_[p].begins_with(problem.classes[p], order.gpus[p], options_.cluster.gpus_per_node);
    if (!layout) continue;
    pools_[p].wanted = std::move(*layout);
    pools_[p].reason = "split for the load that it is given for";
  }
}

void PoolLevel::manage(std::size_t p, const policy::ScalingView& view, const std::vector<double>& load_per_s) {
  PoolState& pool = pools_[p];
  pool.steps.clear();
  const bool due = view.now >= pool.next;
  if (!due && !options_.pool.out_of_turn) return;
  const auto members = members_of(p, view);
  int serving = 0, wanted = 0;
  for (const FleetMember& member : members) serving += shapes_[member.shape].gpus;
  for (const auto& [tp, count] : pool.wanted) wanted += tp * count;
  // Something is still on its way, or leaving: look again at the next tick.
  if (serving < wanted || serving > pool.given.gpus || members.empty()) return;
  const auto load = map_.problem(load_per_s, 0, Watts()).classes[p];
  if (!due && managers_[p].carry(members, load)) return;
  pool.next = Instant((view.now.ns() / options_.pool.epoch.ns() + 1) * options_.pool.epoch.ns());
  PoolDecision decision = managers_[p].decide(load, pool.given.gpus, members, {view.members, view.nodes});
  pool.made = view.now;
  pool.reason = decision.reason;
  pool.wanted = std::move(decision.wanted);
  pool.steps = std::move(decision.steps);
}

/// Of what comes to each pool and stays there: the share that it takes in, less than all only where the order sheds. By
/// the load there is, since the order is for the peak expected, once any is known.
std::vector<double> PoolLevel::taken_in(const ClusterOrder& order, const std::vector<double>& load_now, bool known) {
  std::vector<double> share(load_now.size(), 1.0);
  for (std::size_t p = 0; p < share.size(); ++p) {
    if (order.shed_per_s[p] <= 0.0) continue;
    const double comes = known ? load_now[p] : order.load_per_s[p] + order.shed_per_s[p];
    share[p] = managers::taken_in(order.load_per_s[p], comes);
  }
  return share;
}

/// What the order sheds of a class wherever it comes by.
double PoolLevel::taken_in_of(std::size_t request_class, const ClusterOrder& order,
                              const std::vector<double>& taken_in) const {
  double left = 1.0, kept = 0.0;
  for (std::size_t p = map_.pool_of(request_class); p < taken_in.size(); p = map_.next(p)) {
    kept += left * (1.0 - order.forwarded[p]) * taken_in[p];
    left *= order.forwarded[p];
  }
  return std::min(1.0, kept + left);
}

/// Nothing larger serves: the next smaller pool that does, if one of its tier or a stricter one does; else any.
std::optional<std::size_t> PoolLevel::fallback(std::size_t request_class, const std::vector<bool>& serves) const {
  const std::size_t own = map_.pool_of(request_class);
  for (std::size_t p = own; p-- > 0;) {
    if (serves[p] && p % map_.tiers() >= own % map_.tiers()) return p;
  }
  for (std::size_t p = pools_.size(); p-- > 0;) {
    if (serves[p]) return p;
  }
  return std::nullopt;
}

std::vector<PoolWeight> PoolLevel::weights(const policy::ScalingView& view, const ClusterOrder& order,
                                           const std::vector<double>& taken_in) const {
  std::vector<bool> serves(pools_.size(), false);
  for (const FleetMember& member : view.members) {
    const auto p = static_cast<std::size_t>(member.pool.value());
    if (p < serves.size() && member.phase == Phase::Serving) serves[p] = true;
  }
  if (std::ranges::none_of(serves, [](bool s) { return s; })) {
    for (std::size_t p = 0; p < pools_.size(); ++p) serves[p] = order.gpus[p] > 0;
  }
  std::vector<PoolWeight> made;
  for (std::size_t c = 0; c < map_.classes(); ++c) {
    if (std::ranges::find(mine_, map_.pool_of(c)) == mine_.end()) continue;
    double left = 1.0;
    std::optional<std::size_t> last;
    for (std::size_t p = map_.pool_of(c); p < pools_.size() && left > 0.0; p = map_.next(p)) {
      if (!serves[p]) continue;
      bool larger = false;
      for (std::size_t q = map_.next(p); q < pools_.size(); q = map_.next(q)) larger = larger || serves[q];
      const double on = larger ? order.forwarded[p] : 0.0;
      if (left * (1.0 - on) > 0.0) {
        made.push_back({ClassId(static_cast<std::int32_t>(c)), pool_id(p), left * (1.0 - on) * taken_in[p]});
      }
      left *= on;
      last = p;
    }
    if (last) continue;
    if (const auto any = fallback(c, serves)) {
      made.push_back({ClassId(static_cast<std::int32_t>(c)), pool_id(*any), taken_in_of(c, order, taken_in)});
    }
  }
  return made;
}

/// What comes to each pool, in its heaviest requests: what the cluster manager sends on comes on top of the larger
/// pool's own.
std::vector<double> PoolLevel::in_pools(const std::vector<double>& rate_per_s, const ClusterOrder& order) const {
  auto load = map_.by_pool(rate_per_s);
  const auto problem = map_.problem(load, 0, Watts());
  for (std::size_t p = 0; p < load.size(); ++p) {
    if (map_.next(p) >= load.size()) continue;
    const double on = load[p] * order.forwarded[p];
    load[p] -= on;
    load[map_.next(p)] += on * problem.classes[p].load_in_next;
  }
  return load;
}

Plan PoolLevel::plan(const policy::ScalingView& view, const ClusterMandate& mandate) {
  const ClusterOrder& order = mandate.present;
  const bool first = !followed_;
  if (first) {
    take_over(view);
  } else {
    history_.add(view.rate_per_s, view.now);
  }
  if (!same(followed_, order)) {
    followed_ = order;
    grown_.reset();
    made_ = view.now;
    follow(order);
    if (first && options_.cluster.rule == NodeRule::Whole) begin(view, order);
  }
  if (mandate.next && !same(grown_, *mandate.next)) {
    grown_ = mandate.next;
    // What grows is started now; what shrinks waits for the epoch.
    for (const std::size_t p : mine_) {
      if (grown_->gpus[p] <= pools_[p].given.gpus) continue;
      resize(p, grown_->gpus[p]);
      pools_[p].given.gpus = grown_->gpus[p];
    }
  }
  const auto load = in_pools(history_.present(), order);
  const auto load_now = in_pools({view.rate_per_s.begin(), view.rate_per_s.end()}, order);  // clocks follow at once
  Plan made;
  PlanLevel cluster{.name = "cluster",
                    .pool = {},
                    .made = made_,
                    .gpus = 0,
                    .given = {},
                    .passed = {},
                    .reason = "nodes by the peak expected of each class",
                    .detail = order.tiers};
  for (const std::size_t p : mine_) {
    if (!first) manage(p, view, load);
    PoolState& pool = pools_[p];
    int gpus = 0;
    for (const auto& [tp, count] : pool.wanted) {
      if (count == 0) continue;
      const auto shape = std::ranges::find(shapes_, tp, &policy::Shape::gpus);
      made.instances.push_back({static_cast<std::size_t>(shape - shapes_.begin()), count, {}, pool_id(p)});
      gpus += tp * count;
    }
    for (const PlanStep& step : pool.steps) made.steps.push_back(step);
    pool.steps.clear();
    std::vector<Mandate> passed;
    if (options_.pool.bounds_clocks && gpus > 0) {
      if (const auto range = managers_[p].clocks(map_.problem(load_now, 0, Watts()).classes[p], pool.wanted)) {
        made.clocks.push_back(*range);
        passed.push_back({.pool = pool_id(p),
                          .gpus = gpus,
                          .load_per_s = load_now[p],
                          .least = range->least,
                          .most = range->most,
                          .until = pool.next});
      }
    }
    cluster.gpus += pool.given.gpus;
    cluster.passed.push_back(pool.given);
    made.levels.push_back({.name = "pool",
                           .pool = pool_id(p),
                           .made = pool.made,
                           .gpus = gpus,
                           .given = pool.given,
                           .passed = std::move(passed),
                           .reason = pool.reason});
  }
  made.levels.insert(made.levels.begin(), std::move(cluster));
  if (first) {
    std::ranges::stable_sort(made.instances, std::ranges::greater{},
                             [&](const PlanTarget& target) { return shapes_[target.shape].gpus; });
  }
  made.weights = weights(view, order, taken_in(order, load_now, !first));
  made.reason = order.problem.empty() ? "cluster and pool managers" : "demand above what the cluster carries";
  return made;
}

}  // namespace wattle::managers
