// A plan's weights and clock ranges, as the gateway carries them out.
#include <algorithm>

#include "gateway/strand.h"

namespace wattle::gateway {

void ControlStrand::follow(const PutPlan& plan, Instant now) {
  planned_ = plan.weights;
  share_out(now);
  ranges_until_ = plan.clocks.empty() ? Instant::never() : now + plan.lease;
  bound_all(plan.clocks, now);
}

void ControlStrand::follow_types(std::vector<PoolWeight> weights, Instant now) {
  by_type_ = std::move(weights);
  share_out(now);
}

/// Said again and again: the turns of a class's pools are not to begin again each time.
void ControlStrand::share_out(Instant now) {
  const auto& weights = planned_.empty() ? by_type_ : planned_;
  if (!std::ranges::equal(weights, requests_.weights())) requests_.reroute(weights, now);
}

void ControlStrand::end_ranges(Instant now) {
  if (now < ranges_until_) return;
  ranges_until_ = Instant::never();
  bound_all({}, now);
}

void ControlStrand::bound_all(const std::vector<ClockRange>& ranges, Instant now) {
  if (ranges == ranges_) return;
  ranges_ = ranges;
  for (const InstanceView& view : requests_.instances()) bound(view, now);
}

/// Where its clock is decided: here, or beside its GPUs. All of it, for one that joins.
void ControlStrand::bound(const InstanceView& view, Instant now) {
  const auto found = std::ranges::find(ranges_, view.spec->pool, &ClockRange::pool);
  const auto range = found == ranges_.end() ? std::nullopt : std::optional(*found);
  const Slo* const slo = requests_.held_to(view.id);
  if (watch_options_.clocks != nullptr) {
    watch_.bound(index_.at(view.id), range, now);
    if (slo != nullptr) watch_.held_to(index_.at(view.id), *slo, now);
  } else if (watch_options_.placed) {
    watch_options_.placed(view.id, {view.spec->pool, range, slo != nullptr ? std::optional(*slo) : std::nullopt});
  }
}

void ControlStrand::held_to(InstanceId instance, const Slo& slo, Instant now) {
  const auto i = index_.find(instance);
  if (!i) return;  // it is joining: bound() follows
  if (watch_options_.clocks != nullptr) return watch_.held_to(*i, slo, now);
  bound(requests_.shown(instance), now);
}

}  // namespace wattle::gateway
