#pragma once
// Plans that are handed in over HTTP: the plan of another controller, or a person's.
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "policy/scaling/scaling.h"

namespace wattle::planner {

/// What there is, as a plan: every instance where it is (of a re-shard the new ones), weights and clock ranges in
/// force. `of`: instances in these pools only.
[[nodiscard]] Plan as_it_is(const policy::ScalingView& view, const std::function<bool(PoolId)>& of = nullptr);

/// Whether a plan may name it. `pools`: as for given_plan_from_json.
[[nodiscard]] bool has_pool(PoolId pool, std::size_t pools);

/// A plan as another controller hands it in: journal::plan_from_json of what it means to say, all of it known here.
/// `shapes`: [[fleet]] entries; `pools`: [[pool]]s of the scenario, 0 where it states none and plans make their own.
/// Errors: bad input, with the key.
[[nodiscard]] Result<Plan> given_plan_from_json(std::string_view json, std::size_t shapes, std::size_t pools);

/// Wants what it was given last; before that, what there was when it was first asked. Steps are restated until they
/// have begun.
class GivenPlan final : public policy::ScalingPolicy {
 public:
  Plan plan(const policy::ScalingView& view) override;
  /// From any thread.
  void give(Plan plan);
  /// A plan was given since this was last asked.
  [[nodiscard]] bool fresh();

 private:
  std::mutex mutex_;
  Plan given_;
  std::vector<PlanTarget> began_;
  bool any_ = false;
  bool fresh_ = false;
};

}  // namespace wattle::planner
