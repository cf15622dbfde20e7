#pragma once
// Planners under planners: each gets a mandate from the one above, plans at its own epoch and passes mandates below.
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "policy/scaling/scaling.h"

namespace wattle::policy {

/// All planners of one kind: one for the fleet at the top, below it one for each pool that got a mandate.
struct PlannerLevel {
  const char* name = "";  ///< "cluster", "pool", "instance"
  Span epoch;             ///< between two plans; a mandate that changes is planned under at once
  Span ahead;             ///< what its clock is ahead of the fleet's: controllers need not agree on the time
  std::function<std::shared_ptr<ScalingPolicy>(std::optional<PoolId>)> make;
};

/// One plan of what all of them want. A planner below is asked about the members of its pool and sees its mandate as
/// ScalingView::given, and the rates of its own epoch. What it says of its pool (targets, clocks) stands in place of
/// what the one above said; steps are of those that said them, restated until they have begun; weights are the top's.
/// A mandate holds until the next one comes, whatever its `until` says by a clock that may be another: without its
/// superior a planner goes on within what it got last. The plan's levels state what each was given and passed.
///
/// A planner that starts again in mid-epoch asks everybody at once: the view is all it needs.
class NestedPlanner final : public ScalingPolicy {
 public:
  /// Topmost first. `gpus_of_shape`: GPUs of one instance.
  NestedPlanner(std::vector<PlannerLevel> levels, std::vector<std::int32_t> gpus_of_shape);
  Plan plan(const ScalingView& view) override;

 private:
  struct Seat {
    std::size_t level = 0;
    std::optional<PoolId> pool;
    std::shared_ptr<ScalingPolicy> planner;
    std::optional<Mandate> given;
    Plan newest;
    Instant made;
    Instant due;                   ///< by its own clock
    std::vector<double> arrivals;  ///< by class, in `counted`
    TurnedOut turned_out;          ///< in `counted`
    Span counted;
    bool asked = false;
    bool current = false;  ///< it has a mandate in this round
  };
  Seat& seat(std::size_t level, std::optional<PoolId> pool);
  void visit(std::size_t level, std::optional<PoolId> pool, const std::optional<Mandate>& given,
             const ScalingView& view);
  void ask(Seat& seat, const ScalingView& view);
  void merge(const Seat& seat, const ScalingView& view, Plan& into) const;

  std::vector<PlannerLevel> levels_;
  std::vector<std::int32_t> gpus_of_shape_;
  std::vector<std::unique_ptr<Seat>> seats_;  ///< above before below
  Instant last_;
};

}  // namespace wattle::policy
