#pragma once
// The executor's connection to pool managers in other processes.
#include <optional>
#include <string>
#include <vector>

#include "launch/admin_call.h"
#include "planner/managers_wire.h"

namespace wattle::planner {

class ManagerLinks {
 public:
  /// URLs of pool managers, each of which plans different pools.
  explicit ManagerLinks(const std::vector<std::string>& urls) {
    for (const auto& url : urls) parts_.push_back({url, {}, true});
  }
  [[nodiscard]] bool any() const { return !parts_.empty(); }

  /// Asks all of them, one after the other. If one does not answer, its last part stays in force, without its steps;
  /// pools that have not been planned yet stay as they are. If two plan one pool, the first counts, which is logged.
  /// None: none has ever answered.
  [[nodiscard]] std::optional<Plan> plan(const Observation& seen);

 private:
  struct Part {
    std::string url;
    std::optional<Plan> last;
    bool answers = true;                ///< when last asked; used to log changes once
    std::optional<PoolId> shared = {};  ///< a pool that an earlier one plans as well; likewise
  };
  void ask(Part& part, const Observation& seen);

  std::vector<Part> parts_;
  launch::AdminCaller caller_;
};

/// A pool that both this part and an earlier one plan. None: their pools are different.
[[nodiscard]] std::optional<PoolId> shared_pool(const std::vector<const Plan*>& before, const Plan& part);

/// Several managers' parts as one plan: pools that none of them plans and classes that none of them routes stay as they
/// are.
[[nodiscard]] Plan merged(const std::vector<const Plan*>& parts, const policy::ScalingView& view);

}  // namespace wattle::planner
