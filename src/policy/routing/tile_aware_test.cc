#include "policy/routing/tile_aware.h"

#include <gtest/gtest.h>

#include <vector>

namespace wattle::policy {
namespace {

struct Held {
  std::int32_t requests;
  std::int32_t clock = 1410;
};

std::int32_t route(std::int32_t tile, const std::vector<Held>& fleet) {
  std::vector<InstanceView> views(fleet.size());
  std::vector<const InstanceView*> candidates;
  for (std::size_t i = 0; i < fleet.size(); ++i) {
    views[i].id = InstanceId{static_cast<std::int32_t>(i)};
    views[i].assigned_requests = fleet[i].requests;
    views[i].clock_commanded = MegaHertz{fleet[i].clock};
    candidates.push_back(&views[i]);
  }
  RandomStream random(1, "test");
  return TileAware(tile).route({}, candidates, Instant{}, random).instance.value();
}

TEST(TileAware, BelowATileTakesTheLowestClockThenTheFewestRequests) {
  EXPECT_EQ(route(128, {{10, 1410}, {120, 1005}, {127, 1005}}), 1);
  EXPECT_EQ(route(128, {{10}, {9}, {9}}), 1);
}

TEST(TileAware, OtherwiseFillsTheFullestOfTheFewestTiles) {
  EXPECT_EQ(route(128, {{129}, {100}, {120}}), 2) << "one tile begun, fullest";
  EXPECT_EQ(route(128, {{129}, {128}, {120}}), 2) << "128 stands at a border";
  EXPECT_EQ(route(128, {{129}, {128}, {128}}), 0) << "both others stand at a border";
  EXPECT_EQ(route(128, {{256}, {128}, {384}}), 1) << "all do: the fewest tiles";
  EXPECT_EQ(route(128, {{0}, {128}}), 0) << "empty is no border";
}

TEST(TileAware, TileSizeIsAnOption) {
  EXPECT_EQ(route(64, {{64}, {65}}), 1);
  EXPECT_EQ(route(1, {{3}, {2}}), 1);
}

}  // namespace
}  // namespace wattle::policy
