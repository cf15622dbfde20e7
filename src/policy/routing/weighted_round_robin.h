#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "policy/routing/routing.h"

namespace wattle::policy {

/// Limit of requests in flight for instances of a pool with this TP degree whose GPU's name starts with `gpu`.
struct InFlightBound {
  PoolId pool;
  std::int32_t tensor_parallel = 1;
  std::string gpu;
  std::int32_t requests = 0;
};

struct WeightedRoundRobinOptions {
  std::int32_t max_in_flight_per_gpu = 0;  ///< an instance with this many requests per GPU gets no more; 0: no limit
  std::vector<InFlightBound> bounds = {};  ///< replace it for the instances they describe
};

/// Smooth weighted round-robin (nginx): every candidate gains its weight, the one with the most credit is chosen and
/// pays the sum, so weights 5,1,1 give A A B A C A A instead of A A A A A B C. Ties: the lowest id. Weights that are
/// not positive and finite count as 0: such an instance is used only if all are like it. If every candidate is at its
/// limit, the request is held.
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
