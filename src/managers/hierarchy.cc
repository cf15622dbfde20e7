#include "managers/hierarchy.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace wattle::managers {

namespace {
PoolId pool_id(std::size_t pool) { return PoolId(static_cast<std::int32_t>(pool)); }
}  // namespace

Hierarchy::Hierarchy(std::shared_ptr<const plan::LoadTable> table, std::vector<policy::Shape> shapes,
                     HierarchyOptions options)
    : table_(std::move(table)),
      shapes_(std::move(shapes)),
      options_(std::move(options)),
      map_(*table_, options_.pools),
      cluster_(*table_, map_, options_.cluster, options_.proactive ? options_.overheads.start() : Span()),
      pools_(map_.pools()) {
  WATTLE_CHECK(!shapes_.empty(), "a fleet has at least one shape");
  for (std::size_t p = 0; p < pools_.size(); ++p) managers_.emplace_back(pool_id(p), shapes_, options_.pool);
  cluster_.history().begin_with(options_.past);
}

int Hierarchy::largest() const { return std::ranges::max_element(shapes_, {}, &policy::Shape::gpus)->gpus; }

std::vector<FleetMember> Hierarchy::members_of(std::size_t pool, const policy::ScalingView& view) const {
  std::vector<FleetMember> members;
  for (const FleetMember& member : view.members) {
    if (member.pool == pool_id(pool) && member.phase == Phase::Serving && !member.changing) members.push_back(member);
  }
  return members;
}

/// The pool's instances so that they take so many GPUs: nodes more as instances of the largest shape; fewer by leaving
/// out the largest that are too much, then the smallest.
void Hierarchy::resize(std::size_t pool, int gpus) {
  Layout& wanted = pools_[pool].wanted;
  const auto used = [&] {
    int sum = 0;
    for (const auto& [tp, count] : wanted) sum += tp * count;
    return sum;
  };
  while (used() + largest() <= gpus) ++wanted[largest()];
  for (const policy::Shape& shape : shapes_) {  // a rest that is no whole node (NodeRule::Whole)
    if (gpus - used() >= shape.gpus && gpus - used() < largest() && wanted[shape.gpus] == 0) ++wanted[shape.gpus];
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

void Hierarchy::follow(const ClusterOrder& order, const policy::ScalingView& view) {
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    resize(p, order.gpus[p]);
    pools_[p].given = {.pool = pool_id(p),
                       .gpus = order.gpus[p],
                       .load_per_s = order.load_per_s[p],
                       .least = {},
                       .most = {},
                       .until = order.until};
  }
  cluster_made_ = view.now;
}

void Hierarchy::manage(std::size_t p, const policy::ScalingView& view, const std::vector<double>& load_per_s) {
  PoolState& pool = pools_[p];
  pool.steps.clear();
  if (view.now < pool.next) return;
  const auto members = members_of(p, view);
  int serving = 0, wanted = 0;
  for (const FleetMember& member : members) serving += shapes_[member.shape].gpus;
  for (const auto& [tp, count] : pool.wanted) wanted += tp * count;
  if (serving < wanted || members.empty()) return;  // something is still on its way: look again at the next tick
  pool.next = Instant((view.now.ns() / options_.pool.epoch.ns() + 1) * options_.pool.epoch.ns());
  auto load = map_.problem(load_per_s, 0, Watts()).classes[p];
  PoolDecision decision = managers_[p].decide(load, std::max(pool.given.gpus, serving), members);
  pool.reason = decision.reason;
  if (decision.steps.empty()) return;
  pool.wanted = std::move(decision.wanted);
  pool.steps = std::move(decision.steps);
}

std::vector<PoolWeight> Hierarchy::weights(const policy::ScalingView& view) const {
  std::vector<bool> serves(pools_.size(), false);
  for (const FleetMember& member : view.members) {
    const auto p = static_cast<std::size_t>(member.pool.value());
    if (p < serves.size() && member.phase == Phase::Serving) serves[p] = true;
  }
  if (std::ranges::none_of(serves, [](bool s) { return s; })) {
    for (std::size_t p = 0; p < pools_.size(); ++p) serves[p] = order_ && order_->gpus[p] > 0;
  }
  std::vector<PoolWeight> made;
  for (std::size_t c = 0; c < map_.classes(); ++c) {
    double left = 1.0;
    std::optional<std::size_t> last;
    for (std::size_t p = map_.pool_of(c); p < pools_.size() && left > 0.0; ++p) {
      if (!serves[p]) continue;
      const bool larger =
          std::any_of(serves.begin() + static_cast<std::ptrdiff_t>(p) + 1, serves.end(), [](bool s) { return s; });
      const double on = larger && order_ ? order_->forwarded[p] : 0.0;
      if (left * (1.0 - on) > 0.0) {
        made.push_back({ClassId(static_cast<std::int32_t>(c)), pool_id(p), left * (1.0 - on)});
      }
      left *= on;
      last = p;
    }
    // Nothing larger serves: the next smaller pool that does.
    for (std::size_t p = map_.pool_of(c); !last && p-- > 0;) {
      if (serves[p]) {
        made.push_back({ClassId(static_cast<std::int32_t>(c)), pool_id(p), 1.0});
        last = p;
      }
    }
  }
  return made;
}

Plan Hierarchy::plan(const policy::ScalingView& view) {
  const bool first = !order_.has_value();
  if (!first) cluster_.history().add(view.rate_per_s, view.now);
  if (auto order = cluster_.order(view.now)) {
    if (first) {
      order_ = std::move(*order);
      follow(*order_, view);
    } else {
      waiting_ = std::move(*order);
      // What grows is started now; what shrinks waits for the epoch.
      for (std::size_t p = 0; p < pools_.size(); ++p) {
        if (waiting_->gpus[p] > pools_[p].given.gpus) resize(p, waiting_->gpus[p]);
      }
    }
  }
  if (waiting_ && view.now >= waiting_->from) {
    order_ = std::exchange(waiting_, std::nullopt);
    follow(*order_, view);
  }
  auto load = map_.by_pool(cluster_.history().present());
  // What the cluster manager sends on comes on top of the larger pool's own.
  const auto problem = map_.problem(load, 0, Watts());
  for (std::size_t p = 0; p + 1 < load.size(); ++p) {
    const double on = load[p] * order_->forwarded[p];
    load[p] -= on;
    load[p + 1] += on * problem.classes[p].load_in_next;
  }
  Plan made;
  PlanLevel cluster{.name = "cluster",
                    .pool = {},
                    .made = cluster_made_,
                    .gpus = 0,
                    .given = {},
                    .passed = {},
                    .reason = "nodes by the peak expected of each class"};
  for (std::size_t p = 0; p < pools_.size(); ++p) {
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
    cluster.gpus += pool.given.gpus;
    cluster.passed.push_back(pool.given);
    made.levels.push_back({.name = "pool",
                           .pool = pool_id(p),
                           .made = view.now,
                           .gpus = gpus,
                           .given = pool.given,
                           .passed = {},
                           .reason = pool.reason});
  }
  made.passed = cluster.passed;
  made.levels.insert(made.levels.begin(), std::move(cluster));
  made.weights = weights(view);
  made.reason = order_->problem.empty() ? "cluster and pool managers" : "demand above what the cluster carries";
  return made;
}

}  // namespace wattle::managers
