#include "node/gpu_shares.h"

#include <gtest/gtest.h>

namespace wattle::node {
namespace {

constexpr InstanceId kWhole{0}, kLeft{1}, kRight{2};
using Commands = std::vector<GpuShares::Command>;

GpuShares two_layouts() {
  GpuShares shares;
  shares.add(kWhole, {0, 1});
  shares.add(kLeft, {0});
  shares.add(kRight, {1});
  return shares;
}

TEST(GpuShares, AnEngineAloneGetsWhatItWants) {
  GpuShares shares;
  shares.add(kWhole, {0, 1});
  EXPECT_EQ(shares.command(kWhole, MegaHertz(900)), (Commands{{0, MegaHertz(900)}, {1, MegaHertz(900)}}));
  EXPECT_TRUE(shares.place(kWhole, true).empty());
  EXPECT_EQ(shares.holder(1), kWhole);
}

TEST(GpuShares, OnlyThoseThatAreRunDecide) {
  GpuShares shares = two_layouts();
  EXPECT_TRUE(shares.place(kWhole, true).empty());
  EXPECT_EQ(shares.command(kWhole, MegaHertz(600)), (Commands{{0, MegaHertz(600)}, {1, MegaHertz(600)}}));
  // An engine that does not run sends no reports, so its policy asks for the highest clock.
  EXPECT_EQ(shares.command(kLeft, MegaHertz(1410)), (Commands{{0, MegaHertz(600)}}));
  // The re-shard begins: both count, and the energy stays with the old one.
  EXPECT_EQ(shares.place(kLeft, true), (Commands{{0, MegaHertz(1410)}}));
  EXPECT_EQ(shares.holder(0), kWhole);
  EXPECT_EQ(shares.command(kLeft, MegaHertz(300)), (Commands{{0, MegaHertz(600)}}));
  // It ends.
  EXPECT_EQ(shares.place(kWhole, false), (Commands{{0, MegaHertz(300)}}));
  EXPECT_EQ(shares.holder(0), kLeft);
}

TEST(GpuShares, WhenNobodySaysTheHighestCounts) {
  GpuShares shares = two_layouts();
  (void)shares.command(kWhole, MegaHertz(600));
  EXPECT_EQ(shares.command(kRight, MegaHertz(900)), (Commands{{1, MegaHertz(900)}}));
  EXPECT_EQ(shares.holder(1), kWhole) << "the first one named";
  (void)shares.place(kRight, true);
  EXPECT_EQ(shares.place(kRight, false), Commands{}) << "still the highest";
}

}  // namespace
}  // namespace wattle::node
