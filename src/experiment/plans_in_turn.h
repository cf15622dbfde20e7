#pragma once
// Runs beside each other in one process ask their planners one at a time.
#include <memory>
#include <mutex>
#include <utility>

#include "policy/scaling/scaling.h"

namespace wattle::experiment {

/// CBC reads its parameters through variables of the process, so that two programs at once disturb each other; `plan`
/// may have no lock (law 1).
class PlansInTurn final : public policy::ScalingPolicy {
 public:
  explicit PlansInTurn(std::shared_ptr<policy::ScalingPolicy> inner) : inner_(std::move(inner)) {}
  Plan plan(const policy::ScalingView& view) override {
    static std::mutex one_at_a_time;
    const std::scoped_lock lock(one_at_a_time);
    return inner_->plan(view);
  }
  [[nodiscard]] EventKinds observes() const override { return inner_->observes(); }
  [[nodiscard]] bool reads_steps() const override { return inner_->reads_steps(); }
  void observe(const Event& event, Instant now) override { inner_->observe(event, now); }

 private:
  std::shared_ptr<policy::ScalingPolicy> inner_;
};

}  // namespace wattle::experiment
