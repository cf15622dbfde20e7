#include "policy/routing/weighted_round_robin.h"

#include <cmath>

namespace wattle::policy {

RouteDecision WeightedRoundRobin::route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                                        RandomStream&) {
  const auto slots = static_cast<std::size_t>(candidates.back()->id.value()) + 1;
  if (credit_.size() < slots) credit_.resize(slots, 0.0);
  double total = 0.0;
  const InstanceView* best = nullptr;
  double best_credit = 0.0;
  for (const InstanceView* candidate : candidates) {
    const double stated = candidate->spec->weight;
    const double weight = std::isfinite(stated) && stated > 0.0 ? stated : 0.0;
    if (weight == 0.0) continue;
    double& credit = credit_[static_cast<std::size_t>(candidate->id.value())];
    credit += weight;
    total += weight;
    if (best == nullptr || credit > best_credit) {
      best = candidate;
      best_credit = credit;
    }
  }
  if (best == nullptr) return {candidates.front()->id, "no candidate has weight"};
  credit_[static_cast<std::size_t>(best->id.value())] -= total;
  return {best->id, "its weighted turn"};
}

}  // namespace wattle::policy
