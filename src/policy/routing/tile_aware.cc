#include "policy/routing/tile_aware.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace wattle::policy {

TileAware::TileAware(std::int32_t tile_requests) : tile_(tile_requests) {
  WATTLE_CHECK(tile_ >= 1, "tile-aware's tiles hold requests");
}

RouteDecision TileAware::route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                               RandomStream&) {
  const auto requests = [](const InstanceView* view) { return std::max(0, view->assigned_requests); };
  if (std::ranges::all_of(candidates, [&](const InstanceView* view) { return requests(view) < tile_; })) {
    const auto* best = *std::ranges::min_element(
        candidates, {}, [&](const InstanceView* view) { return std::tuple(view->clock_commanded, requests(view)); });
    return {best->id, "below one tile: lowest clock"};
  }
  const auto* best = *std::ranges::min_element(candidates, {}, [&](const InstanceView* view) {
    const std::int32_t held = requests(view);
    const bool at_border = held > 0 && held % tile_ == 0;
    const std::int32_t tiles = held / tile_ + (held % tile_ != 0 ? 1 : 0);
    return std::tuple(at_border, tiles, -held);
  });
  return {best->id, "fullest of the fewest tiles"};
}

}  // namespace wattle::policy
