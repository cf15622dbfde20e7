#include "planner/given_plan.h"

#include <algorithm>
#include <utility>

namespace wattle::planner {

Plan as_it_is(const policy::ScalingView& view, const std::function<bool(PoolId)>& of) {
  Plan plan;
  for (std::size_t i = 0; i < view.members.size(); ++i) {
    const FleetMember& m = view.members[i];
    const auto replaces = [&](const FleetMember& younger) {
      return younger.node == m.node && std::ranges::find_first_of(younger.gpus, m.gpus) != younger.gpus.end();
    };
    if ((of && !of(m.pool)) || std::ranges::any_of(view.members.subspan(i + 1), replaces)) continue;
    plan.instances.push_back({m.shape, 1, {}, m.pool});
  }
  plan.weights.assign(view.weights.begin(), view.weights.end());
  plan.clocks.assign(view.clocks.begin(), view.clocks.end());
  return plan;
}

Plan GivenPlan::plan(const policy::ScalingView& view) {
  const std::lock_guard lock(mutex_);
  fresh_ = false;
  if (!any_) {
    Plan plan = as_it_is(view);
    plan.reason = "no plan was given yet: as it is";
    return plan;
  }
  Plan plan = given_;
  std::erase_if(plan.steps, [&](const PlanStep& step) {
    return std::ranges::any_of(step.from, [&](InstanceId id) {
      const auto m = std::ranges::find(view.members, id, &FleetMember::id);
      return m == view.members.end() || m->phase != Phase::Serving;
    });
  });
  return plan;
}

void GivenPlan::give(Plan plan) {
  const std::lock_guard lock(mutex_);
  given_ = std::move(plan);
  any_ = fresh_ = true;
}

bool GivenPlan::fresh() {
  const std::lock_guard lock(mutex_);
  return fresh_;
}

}  // namespace wattle::planner
