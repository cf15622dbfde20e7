#pragma once
#include <cstdint>

#include "policy/routing/routing.h"

namespace wattle::policy {

/// The policy of VoltanaLLM's published code, as a baseline: fills tiles of a fixed size. While every candidate has
/// less than one tile: the lowest commanded clock, then the fewest requests. Otherwise the fewest tiles started, then
/// the most requests, skipping instances exactly at a border (where a request would start a tile) unless all are.
/// Counts are the dispatcher's. Ties: the lowest id.
class TileAware final : public RoutingPolicy {
 public:
  /// tile_requests >= 1; the published value is 128.
  explicit TileAware(std::int32_t tile_requests);
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;

 private:
  std::int32_t tile_;
};

}  // namespace wattle::policy
