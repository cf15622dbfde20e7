#pragma once
// The executor's side of pool managers that are processes of their own.
#include <optional>
#include <string>
#include <vector>

#include "launch/admin_call.h"
#include "planner/managers_wire.h"

namespace wattle::planner {

class ManagerLinks {
 public:
  /// URLs of pool managers; each plans pools of its own.
  explicit ManagerLinks(const std::vector<std::string>& urls) {
    for (const auto& url : urls) parts_.push_back({url, {}, true});
  }
  [[nodiscard]] bool any() const { return !parts_.empty(); }

  /// Asks all of them, one after the other. Of one that does not answer the last part holds, without its steps; what
  /// nobody has planned yet stays as it is. Of two that plan one pool the first counts, which is logged. None: nobody
  /// has ever answered.
  [[nodiscard]] std::optional<Plan> plan(const Observation& seen);

 private:
  struct Part {
    std::string url;
    std::optional<Plan> last;
    bool answers = true;                ///< when last asked; so that a change is logged once
    std::optional<PoolId> shared = {};  ///< a pool that one before it plans, too; likewise
  };
  void ask(Part& part, const Observation& seen);

  std::vector<Part> parts_;
  launch::AdminCaller caller_;
};

/// A pool that this part plans and one of those before it plans, too. None: they plan pools of their own.
[[nodiscard]] std::optional<PoolId> shared_pool(const std::vector<const Plan*>& before, const Plan& part);

/// Several managers' parts as one plan: pools that none of them plans and classes that none of them routes stay as they
/// are.
[[nodiscard]] Plan merged(const std::vector<const Plan*>& parts, const policy::ScalingView& view);

}  // namespace wattle::planner
