#pragma once
#include <cstdint>

#include "policy/routing/routing.h"

namespace wattle::policy {

/// The published implementation's own policy, as a baseline: fills tiles of a fixed size. While every candidate holds
/// less than one tile: the lowest commanded clock, then the fewest requests. Otherwise the fewest tiles begun, the
/// fullest of those first, passing over instances that stand exactly at a border (one more request would begin a
/// tile) unless all do. Counts are the dispatcher's; the lowest id between equals.
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
