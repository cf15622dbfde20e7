#include "planner/cut_off.h"

#include <gtest/gtest.h>

namespace wattle::planner {
namespace {

using Changes = std::vector<std::pair<NodeId, bool>>;

Instant at(int seconds) { return Instant() + Span::s(seconds); }
CutOffs::Sight sight(int node, bool reachable) { return {NodeId(node), reachable}; }

TEST(CutOffs, ANodeIsCutOffOnceNothingThereWasReachedForAWhile) {
  CutOffs cuts(Span::s(5), Span::s(60));
  const std::vector<CutOffs::Sight> one_died{sight(0, true), sight(0, false), sight(1, true)};
  const std::vector<CutOffs::Sight> silent{sight(0, false), sight(0, false), sight(1, true)};
  for (int s = 0; s < 20; ++s) EXPECT_EQ(cuts.look(one_died, at(s)), Changes{}) << "one engine is not the node";
  for (int s = 20; s < 25; ++s) EXPECT_EQ(cuts.look(silent, at(s)), Changes{});
  EXPECT_EQ(cuts.look(silent, at(25)), (Changes{{NodeId(0), false}}));
  EXPECT_TRUE(cuts.cut_off(NodeId(0)));
  EXPECT_FALSE(cuts.cut_off(NodeId(1)));
  EXPECT_EQ(cuts.look(silent, at(26)), Changes{}) << "said once";
}

TEST(CutOffs, ASilenceThatIsBrokenBeginsAgain) {
  CutOffs cuts(Span::s(5), Span::s(60));
  for (int s = 0; s < 100; ++s) {
    EXPECT_EQ(cuts.look(std::vector{sight(0, s % 5 == 4)}, at(s)), Changes{});
  }
}

TEST(CutOffs, TimeInWhichTheGatewaySaysNothingDoesNotCount) {
  CutOffs cuts(Span::s(5), Span::s(60));
  const std::vector<CutOffs::Sight> silent{sight(0, false)};
  for (int s = 0; s < 4; ++s) EXPECT_EQ(cuts.look(silent, at(s)), Changes{});
  for (int s = 20; s < 25; ++s) EXPECT_EQ(cuts.look(silent, at(s)), Changes{});
  EXPECT_EQ(cuts.look(silent, at(25)), (Changes{{NodeId(0), false}}));
}

TEST(CutOffs, ItIsTriedAgainAfterPausesThatDouble) {
  CutOffs cuts(Span::s(5), Span::s(60));
  const std::vector<CutOffs::Sight> nobody;
  const std::vector<CutOffs::Sight> silent{sight(0, false)};
  int now = 0;
  const auto cut_off_in_5_s = [&] {
    for (int s = 0; s < 5; ++s) EXPECT_EQ(cuts.look(silent, at(now++)), Changes{});
    EXPECT_EQ(cuts.look(silent, at(now)), (Changes{{NodeId(0), false}}));
  };
  for (const int pause : {60, 120, 240, 480, 960, 960}) {
    cut_off_in_5_s();
    EXPECT_EQ(cuts.look(nobody, at(now + pause - 1)), Changes{});
    EXPECT_EQ(cuts.look(nobody, at(now += pause)), (Changes{{NodeId(0), true}}));
  }
  EXPECT_EQ(cuts.look(std::vector{sight(0, true)}, at(now += 1)), Changes{});
  ++now;
  cut_off_in_5_s();
  EXPECT_EQ(cuts.look(nobody, at(now + 60)), (Changes{{NodeId(0), true}})) << "reached meanwhile: from the beginning";
}

}  // namespace
}  // namespace wattle::planner
