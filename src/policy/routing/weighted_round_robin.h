#pragma once
#include <vector>

#include "policy/routing/routing.h"

namespace wattle::policy {

/// Smooth weighted round-robin (nginx): every candidate gains its weight, the richest is chosen and pays the sum, so
/// weights 5,1,1 give A A B A C A A rather than A A A A A B C. The lowest id wins between equals. Weights that are not
/// positive and finite count as 0: such an instance serves only when all do.
class WeightedRoundRobin final : public RoutingPolicy {
 public:
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }
  [[nodiscard]] EventKinds observes() const override { return EventKinds::of<event::Gone>(); }
  void observe(const Event& event, Instant now) override;

 private:
  struct Credit {
    InstanceId id;
    double value = 0.0;
  };
  std::vector<Credit> credit_;  ///< ascending by id
};

}  // namespace wattle::policy
