#include "control/plan_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace wattle::control {

namespace {

const FleetMember* find(std::span<const FleetMember> members, InstanceId id) {
  const auto found = std::ranges::find(members, id, &FleetMember::id);
  return found == members.end() ? nullptr : &*found;
}

const char* flaw_of_targets(const Plan& plan, const FleetBounds& bounds) {
  std::int64_t instances = 0;
  std::int64_t gpus = 0;
  std::map<NodeId, std::int64_t> on_node;
  for (const PlanTarget& target : plan.instances) {
    if (target.shape >= bounds.gpus_of_shape.size()) return "a target of an unknown shape";
    if (target.count < 0) return "a negative number of instances";
    const bool half = target.shape < bounds.half_of_pair.size() && bounds.half_of_pair[target.shape];
    if (half && target.count > 0) return "a target of half a pair";
    instances += target.count;
    const std::int64_t taken = std::int64_t{target.count} * bounds.gpus_of_shape[target.shape];
    gpus += taken;
    if (!target.node || bounds.nodes.empty()) continue;
    const auto node = std::ranges::find(bounds.nodes, *target.node, &NodeView::id);
    if (node == bounds.nodes.end()) return "a target on a node that is not there";
    if ((on_node[*target.node] += taken) > node->gpus) return "more GPUs of a node than it has";
  }
  if (instances == 0) return "no instance is wanted";
  if (bounds.gpus > 0 && gpus > bounds.gpus) return "more GPUs than there are";
  if (plan.given && plan.given->gpus > 0 && gpus > plan.given->gpus) return "more GPUs than were given";
  std::int64_t passed = 0;
  for (const Mandate& mandate : plan.passed) passed += mandate.gpus;
  if (passed > gpus) return "more GPUs are passed below than are planned";
  return nullptr;
}

const char* flaw_of_ranges(const Plan& plan) {
  for (const ClockRange& range : plan.clocks) {
    if (range.least > range.most) return "a clock range that is empty";
    if (std::ranges::count(plan.clocks, range.pool, &ClockRange::pool) > 1) return "two clock ranges for a pool";
    if (!plan.given) continue;
    if (plan.given->least && range.least < *plan.given->least) return "clocks below those given";
    if (plan.given->most && range.most > *plan.given->most) return "clocks above those given";
  }
  for (const PoolWeight& weight : plan.weights) {
    const auto staffs = [&](const PlanTarget& t) { return t.count > 0 && (!t.pool || *t.pool == weight.pool); };
    if (weight.weight > 0.0 && std::ranges::none_of(plan.instances, staffs)) return "requests to a pool of no instance";
    if (!(weight.weight >= 0.0) || !std::isfinite(weight.weight)) return "a weight that is no share";
    double sum = 0.0;
    for (const PoolWeight& other : plan.weights) {
      if (other.request_class == weight.request_class) sum += other.weight;
    }
    if (sum > 1.0 + 1e-6) return "the weights of a class add up to more than 1";
  }
  return nullptr;
}

const char* flaw_of_levels(const Plan& plan) {
  for (const PlanLevel& level : plan.levels) {
    std::int64_t passed = 0;
    for (const Mandate& below : level.passed) {
      passed += below.gpus;
      if (below.least && below.most && *below.least > *below.most) return "an empty clock range is passed below";
      if (!level.given) continue;
      if (level.given->least && below.least && *below.least < *level.given->least) return "clocks below those given";
      if (level.given->most && below.most && *below.most > *level.given->most) return "clocks above those given";
    }
    for (const ClockRange& range : plan.clocks) {
      if (!level.given || !level.pool || range.pool != *level.pool) continue;
      if (level.given->least && range.least < *level.given->least) return "clocks below those given";
      if (level.given->most && range.most > *level.given->most) return "clocks above those given";
    }
    if (!level.given || level.given->gpus == 0) continue;
    if (level.gpus > level.given->gpus) return "more GPUs than were given";
    if (passed > level.given->gpus) return "more GPUs are passed below than were given";
  }
  return nullptr;
}

/// Counts serving instances, in total and by pool, while the plan's steps are applied.
struct Servers {
  Servers(const Plan& of, std::span<const FleetMember> members) : plan(of) {
    for (const FleetMember& m : members) add(m.pool, m.phase == Phase::Serving ? 1 : 0);
  }
  void add(PoolId pool, std::int64_t n) {
    all += n;
    by_pool[pool] += n;
  }
  /// Whether a pool that gets requests would lose its last instance.
  [[nodiscard]] bool empties(const std::map<PoolId, std::int64_t>& leaving) const {
    return std::ranges::any_of(plan.weights, [&](const PoolWeight& w) {
      const auto gone = leaving.find(w.pool);
      return w.weight > 0.0 && gone != leaving.end() && by_pool.at(w.pool) <= gone->second;
    });
  }
  const Plan& plan;
  std::int64_t all = 0;
  std::map<PoolId, std::int64_t> by_pool;
};

const char* flaw_of_form(const PlanStep& step, const FleetBounds& bounds) {
  for (const std::size_t shape : step.to) {
    if (shape >= bounds.gpus_of_shape.size()) return "a step to an unknown shape";
  }
  if (step.cost.time < Span() || step.cost.time == Span::max()) return "a step that never ends";
  if (!(step.cost.lost_load_per_s >= 0.0) || step.cost.energy < Joules(0.0)) return "a step of negative cost";
  switch (step.kind) {
    case StepKind::Start:
      return step.from.empty() && step.to.size() == 1 ? nullptr : "a start is of one shape and from nothing";
    case StepKind::Drain:
      return step.from.size() == 1 && step.to.empty() ? nullptr : "a drain is of one instance";
    case StepKind::Reshard:
      return !step.from.empty() && !step.to.empty() ? nullptr : "a re-shard is from instances to shapes";
    case StepKind::Move:
      return step.from.size() == 1 && step.to.empty() && step.node ? nullptr : "a move is of one instance to a node";
    case StepKind::Reroute:
      return step.from.empty() && step.to.empty() ? nullptr : "a re-route touches no instance";
  }
  return "a step of no kind";
}

}  // namespace

const char* flaw_of(const Plan& plan, std::span<const FleetMember> members, const FleetBounds& bounds) {
  if (const char* flaw = flaw_of_targets(plan, bounds)) return flaw;
  if (const char* flaw = flaw_of_ranges(plan)) return flaw;
  if (const char* flaw = flaw_of_levels(plan)) return flaw;
  Servers servers(plan, members);
  std::set<InstanceId> touched;
  for (const PlanStep& step : plan.steps) {
    if (const char* flaw = flaw_of_form(step, bounds)) return flaw;
    std::map<PoolId, std::int64_t> leaving;
    std::int64_t gpus_before = 0;
    std::int64_t gpus_after = 0;
    PoolId pool{};
    std::optional<NodeId> node;
    for (const InstanceId id : step.from) {
      const FleetMember* member = find(members, id);
      if (member == nullptr) return "a step from an instance that is not there";
      if (!touched.insert(id).second) return "an instance in two steps";
      if (member->phase != Phase::Serving) return "a step from an instance that does not serve";
      if (step.kind == StepKind::Reshard && node && *node != member->node) return "a re-shard across nodes";
      node = member->node;
      if (leaving.empty()) pool = member->pool;  // default if the step names no pool
      gpus_before += bounds.gpus_of_shape.at(member->shape);
      ++leaving[member->pool];
    }
    for (const std::size_t shape : step.to) gpus_after += bounds.gpus_of_shape[shape];
    if (step.kind == StepKind::Reshard) {
      const auto view = std::ranges::find(bounds.nodes, node, &NodeView::id);
      if (gpus_after > gpus_before + (view == bounds.nodes.end() ? 0 : view->free_gpus)) {
        return "a re-shard to more GPUs than it is from and its node has free";
      }
    }
    // A move's new instance serves before the old one drains, and so does a re-shard's with serves_on. Otherwise the
    // old ones leave first.
    const bool after = step.kind == StepKind::Move || (step.kind == StepKind::Reshard && step.serves_on);
    const auto left = static_cast<std::int64_t>(step.from.size());
    if (left > 0 && !after && servers.all <= left) return "nothing would serve";
    const auto come = static_cast<std::int64_t>(step.kind == StepKind::Move ? 1 : step.to.size());
    if (after) servers.add(step.pool.value_or(pool), come);
    if (servers.empties(leaving)) return "nothing would serve in a pool";
    for (const auto& [of, n] : leaving) servers.add(of, -n);
    if (!after) servers.add(step.pool.value_or(pool), come);
  }
  return nullptr;
}

}  // namespace wattle::control
