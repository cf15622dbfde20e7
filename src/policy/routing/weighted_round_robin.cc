#include "policy/routing/weighted_round_robin.h"

#include <cmath>
#include <cstddef>

namespace wattle::policy {

std::int64_t WeightedRoundRobin::bound_of(const InstanceSpec& spec) const {
  for (const InFlightBound& bound : options_.bounds) {
    const bool is_it = bound.pool == spec.pool && bound.tensor_parallel == spec.tensor_parallel;
    if (is_it && spec.gpu.name.starts_with(bound.gpu)) return bound.requests;
  }
  return std::int64_t{options_.max_in_flight_per_gpu} * spec.tensor_parallel;
}

bool WeightedRoundRobin::full(const InstanceView& view) const {
  const std::int64_t bound = bound_of(*view.spec);
  return bound > 0 && view.assigned_requests >= bound;
}

RouteDecision WeightedRoundRobin::route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                                        RandomStream&) {
  double total = 0.0;
  const InstanceView* best = nullptr;
  double best_credit = 0.0;
  std::size_t best_at = 0;
  std::size_t at = 0;
  const InstanceView* free = nullptr;
  for (const InstanceView* candidate : candidates) {
    if (full(*candidate)) continue;
    if (free == nullptr) free = candidate;
    const double stated = candidate->spec->weight;
    const double weight = std::isfinite(stated) && stated > 0.0 ? stated : 0.0;
    if (weight == 0.0) continue;
    // Both ascend by id.
    while (at < credit_.size() && credit_[at].id < candidate->id) ++at;
    if (at == credit_.size() || credit_[at].id != candidate->id) {
      credit_.insert(credit_.begin() + static_cast<std::ptrdiff_t>(at), Credit{candidate->id, 0.0});
    }
    double& credit = credit_[at].value;
    credit += weight;
    total += weight;
    if (best == nullptr || credit > best_credit) {
      best = candidate;
      best_credit = credit;
      best_at = at;
    }
  }
  if (free == nullptr) return {kNoInstance, "every instance is at its bound in flight"};
  if (best == nullptr) return {free->id, "no candidate has weight"};
  credit_[best_at].value -= total;
  return {best->id, "its weighted turn"};
}

void WeightedRoundRobin::observe(const Event& event, Instant) {
  if (const auto* gone = std::get_if<event::Gone>(&event)) {
    std::erase_if(credit_, [&](const Credit& credit) { return credit.id == gone->instance.id; });
  }
}

}  // namespace wattle::policy
