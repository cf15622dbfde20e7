#include "node/node_budget.h"

#include <gtest/gtest.h>

namespace wattle::node {
namespace {

constexpr policy::WattBudget::Group kGpu{MegaHertz(210), MegaHertz(1410), Milliwatts(400'000)};
const std::vector kFour(4, kGpu);

/// `count` periods at this power each, whatever the clocks.
void periods(NodeBudget& budget, int count, Milliwatts each, const std::vector<bool>& idle, Instant& now) {
  const std::vector<NodeBudget::Reading> readings(4, {each, MegaHertz(1410)});
  for (int i = 0; i < count; ++i) {
    now = now + Span::s(1);
    (void)budget.decide(readings, idle, now);
  }
}

TEST(NodeBudget, GpusOfEnginesThatHaveOneInCommonShareACeiling) {
  const std::vector<std::vector<std::size_t>> engines{{0, 1}, {1}, {2}, {3}};
  NodeBudget budget(kFour, engines);
  budget.set(Milliwatts(1'000'000), Instant());
  Instant now;
  periods(budget, 3, Milliwatts(300'000), {true, false, true, false}, now);
  EXPECT_EQ(budget.ceiling(0), budget.ceiling(1));
  EXPECT_EQ(budget.ceiling(2), MegaHertz(210)) << "nothing to do for three periods: the first to give";
  EXPECT_EQ(budget.ceiling(3), budget.ceiling(0)) << "one engine of that group works";
  EXPECT_GT(budget.ceiling(3), MegaHertz(210));
  EXPECT_EQ(budget.state().drawn(), Milliwatts(1'200'000));
}

TEST(NodeBudget, APauseIsNoSlack) {
  const std::vector<std::vector<std::size_t>> engines{{0, 1}, {2, 3}};
  NodeBudget budget(kFour, engines);
  budget.set(Milliwatts(1'180'000), Instant());
  Instant now;
  periods(budget, 2, Milliwatts(300'000), {false, true}, now);
  EXPECT_EQ(budget.ceiling(2), budget.ceiling(0));
  EXPECT_NE(budget.ceiling(2), MegaHertz(0));
}

TEST(NodeBudget, NoCeilingIsNoneAndOneFailedReadingIsItsGroups) {
  const std::vector<std::vector<std::size_t>> engines{{0, 1}, {2, 3}};
  NodeBudget budget(kFour, engines);
  EXPECT_EQ(budget.ceiling(0), MegaHertz(0));
  EXPECT_EQ(budget.highest(0), MegaHertz(1410));
  budget.set(Milliwatts(2'000'000), Instant());
  std::vector<NodeBudget::Reading> readings(4, {Milliwatts(100'000), MegaHertz(1410)});
  readings[1].power.reset();
  (void)budget.decide(readings, {false, false}, Instant() + Span::s(1));
  EXPECT_EQ(budget.state().blind(), 1);
}

}  // namespace
}  // namespace wattle::node
