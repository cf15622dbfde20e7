#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "policy/routing/routing.h"

namespace wattle::policy {

/// What workers of a pool, on so many GPUs whose name begins so, may have in flight.
struct InFlightBound {
  PoolId pool;
  std::int32_t tensor_parallel = 1;
  std::string gpu;
  std::int32_t requests = 0;
};

struct WeightedRoundRobinOptions {
  std::int32_t max_in_flight_per_gpu = 0;  ///< an instance with so many requests per GPU is left out; 0: none is
  std::vector<InFlightBound> bounds = {};  ///< instead, for instances that one of them is of
};

/// Smooth weighted round-robin (nginx): every candidate gains its weight, the richest is chosen and pays the sum, so
/// weights 5,1,1 give A A B A C A A rather than A A A A A B C. The lowest id wins between equals. Weights that are not
/// positive and finite count as 0: such an instance serves only when all do. Where every
/// candidate is at its bound, nobody's turn comes: the request is held.
class WeightedRoundRobin final : public RoutingPolicy {
 public:
  explicit WeightedRoundRobin(const WeightedRoundRobinOptions& options = {}) : options_(options) {}
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }
  [[nodiscard]] EventKinds observes() const override { return EventKinds::of<event::Gone>(); }
  void observe(const Event& event, Instant now) override;

 private:
  [[nodiscard]] std::int64_t bound_of(const InstanceSpec& spec) const;
  [[nodiscard]] bool full(const InstanceView& view) const;

  struct Credit {
    InstanceId id;
    double value = 0.0;
  };
  WeightedRoundRobinOptions options_;
  std::vector<Credit> credit_;  ///< ascending by id
};

}  // namespace wattle::policy
