#include "policy/frequency/watt_budget.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"

namespace wattle::policy {
namespace {

constexpr MegaHertz kLeastClock{210};
constexpr MegaHertz kHighest{1410};
constexpr Milliwatts kMost{400'000};
constexpr Span kPeriod = Span::s(1);
/// Periods until the level has fallen to 0 from anywhere, plus one whose mean includes time before the fall.
constexpr int kAtMost = 8;

/// GPUs with power proportional to a power of the clock, whose exponent the controller does not know.
class Node {
 public:
  struct Gpu {
    double idle_w = 52.0;
    double dynamic_w = 348.0;  ///< at the highest clock, under full load
    double exponent = 2.0;
    double load = 1.0;  ///< 0 to 1
    MegaHertz wanted = kHighest;
    bool reads = true;
  };
  Node(std::size_t count, double noise) : gpus(count), noise_(noise), budget(groups(count)) {}

  static std::vector<WattBudget::Group> groups(std::size_t count) {
    return std::vector<WattBudget::Group>(count, WattBudget::Group{kLeastClock, kHighest, kMost});
  }
  [[nodiscard]] double power_w(std::size_t g, MegaHertz ceiling) const {
    const Gpu& gpu = gpus[g];
    const double share = static_cast<double>(std::min(ceiling, gpu.wanted).value()) / kHighest.value();
    return gpu.idle_w + gpu.load * gpu.dynamic_w * std::pow(share, gpu.exponent);
  }
  [[nodiscard]] double power_w() const {
    double sum = 0.0;
    for (std::size_t g = 0; g < gpus.size(); ++g) sum += power_w(g, budget.ceiling(g));
    return sum;
  }
  [[nodiscard]] double least_w() const {
    double sum = 0.0;
    for (std::size_t g = 0; g < gpus.size(); ++g) sum += power_w(g, kLeastClock);
    return sum;
  }
  /// A period passes and the next decision is made. True: a ceiling has changed.
  bool period(RandomStream& random) {
    std::vector<WattBudget::Reading> readings;
    measured_w = 0.0;
    for (std::size_t g = 0; g < gpus.size(); ++g) {
      const double w = power_w(g, budget.ceiling(g)) * (1.0 + noise_ * (2.0 * random.uniform() - 1.0));
      measured_w += w;
      // A GPU below its wanted clock reports its ceiling.
      readings.push_back({gpus[g].reads ? std::optional(to_milliwatts(Watts(w))) : std::nullopt,
                          std::min(gpus[g].wanted, budget.ceiling(g)), gpus[g].load == 0.0});
    }
    now = now + kPeriod;
    return budget.decide(readings, now);
  }
  void periods(int count, RandomStream& random) {
    for (int i = 0; i < count; ++i) (void)period(random);
  }

  std::vector<Gpu> gpus;
  double measured_w = 0.0;
  Instant now;

 private:
  double noise_;

 public:
  WattBudget budget;
};

RandomStream a_stream(std::uint64_t seed) { return RandomStream(seed, "watt_budget_test"); }

RC_GTEST_PROP(WattBudget, IsNeverExceededForLongWhateverPowerDoesWithTheClock, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 9);
  RandomStream random = a_stream(*rc::gen::arbitrary<std::uint64_t>());
  Node node(count, 0.01);
  for (auto& gpu : node.gpus) gpu.exponent = 0.2 + 2.8 * random.uniform();
  double budget_w = 0.0;
  int over = 0;
  for (int i = 0; i < 400; ++i) {
    if (i % 40 == 0) {  // another load, another budget
      for (auto& gpu : node.gpus) {
        gpu.load = random.uniform() < 0.2 ? 0.0 : random.uniform();
        gpu.wanted = random.uniform() < 0.5 ? kHighest : MegaHertz(210 + 15 * static_cast<int>(80 * random.uniform()));
      }
      budget_w = node.least_w() * (1.05 + random.uniform());
      node.budget.set(to_milliwatts(Watts(budget_w)), node.now);
      over = 0;
    }
    (void)node.period(random);
    over = node.measured_w > budget_w ? over + 1 : 0;
    RC_ASSERT(over <= kAtMost);
    RC_ASSERT(node.budget.state() != WattBudget::State::Unreachable);
    for (std::size_t g = 0; g < count; ++g) {
      RC_ASSERT(node.budget.ceiling(g) >= kLeastClock);
      RC_ASSERT(node.budget.ceiling(g) <= kHighest);
    }
  }
}

RC_GTEST_PROP(WattBudget, CeilingsAreGoneOnceLoadHasFallen, ()) {
  RandomStream random = a_stream(*rc::gen::arbitrary<std::uint64_t>());
  Node node(*rc::gen::inRange<std::size_t>(1, 9), 0.01);
  for (auto& gpu : node.gpus) gpu.exponent = 0.5 + 2.5 * random.uniform();
  // After the load has fallen, their power at the highest clocks is well within the budget.
  const double later_w = static_cast<double>(node.gpus.size()) * (52.0 + 0.02 * 348.0) * 1.15;
  node.budget.set(to_milliwatts(Watts(std::max(node.least_w() * 1.1, later_w))), node.now);
  node.periods(30, random);
  RC_ASSERT(node.budget.binds());
  for (auto& gpu : node.gpus) gpu.load *= 0.02;
  node.periods(60, random);
  RC_ASSERT(!node.budget.binds());
}

RC_GTEST_PROP(WattBudget, AnEvenLoadComesToRestNearTheBudget, ()) {
  RandomStream random = a_stream(*rc::gen::arbitrary<std::uint64_t>());
  Node node(*rc::gen::inRange<std::size_t>(2, 9), 0.01);
  const double exponent = 1.0 + 2.0 * random.uniform();
  for (auto& gpu : node.gpus) gpu.exponent = exponent;
  const double budget_w = node.least_w() + (node.power_w() - node.least_w()) * (0.2 + 0.6 * random.uniform());
  node.budget.set(to_milliwatts(Watts(budget_w)), node.now);
  node.periods(100, random);
  int changes = 0;
  for (int i = 0; i < 100; ++i) {
    changes += node.period(random) ? 1 : 0;
    RC_ASSERT(node.measured_w <= budget_w);
    RC_ASSERT(node.measured_w >= 0.86 * budget_w);
  }
  RC_ASSERT(changes <= 4);
}

TEST(WattBudget, GivesAllTheSameShareOfTheirClocksAndWhatOneLeavesToTheOthers) {
  RandomStream random = a_stream(1);
  Node node(4, 0.0);
  node.gpus[3].wanted = MegaHertz(510);  // its policy wants no higher clock
  node.budget.set(Milliwatts(800'000), node.now);
  node.periods(100, random);
  EXPECT_EQ(node.budget.ceiling(0), node.budget.ceiling(1));
  EXPECT_EQ(node.budget.ceiling(1), node.budget.ceiling(2));
  EXPECT_GT(node.budget.ceiling(0), MegaHertz(900));
  EXPECT_EQ(std::min(node.budget.ceiling(3), node.gpus[3].wanted), MegaHertz(510)) << "nothing was taken from it";
  EXPECT_LE(node.power_w(), 800.0);
  EXPECT_GE(node.power_w(), 0.9 * 800.0);
}

TEST(WattBudget, GpusWithNothingToDoAreLoweredFirst) {
  RandomStream random = a_stream(1);
  Node node(4, 0.0);
  node.gpus[0].load = node.gpus[1].load = 0.0;
  for (std::size_t g = 0; g < 2; ++g) {  // idle GPUs draw more at a high clock than at a low one
    node.gpus[g].idle_w = 60.0;
  }
  node.budget.set(to_milliwatts(Watts(node.power_w() * 0.9)), node.now);
  node.periods(3, random);
  EXPECT_EQ(node.budget.ceiling(0), kLeastClock);
  EXPECT_GT(node.budget.ceiling(2), kLeastClock);
  EXPECT_EQ(node.budget.ceiling(2), node.budget.ceiling(3));
}

TEST(WattBudget, DoesNothingWithoutABudgetAndLetsGoWhenItIsTakenBack) {
  RandomStream random = a_stream(1);
  Node node(2, 0.0);
  node.periods(20, random);
  EXPECT_EQ(node.budget.next(), Instant::never());
  EXPECT_EQ(node.budget.state(), WattBudget::State::Unbounded);
  EXPECT_FALSE(node.budget.binds());
  node.budget.set(Milliwatts(400'000), node.now);
  node.periods(20, random);
  EXPECT_TRUE(node.budget.binds());
  EXPECT_EQ(node.budget.state(), WattBudget::State::Kept);
  node.budget.set(std::nullopt, node.now);
  EXPECT_FALSE(node.budget.binds());
  EXPECT_EQ(node.budget.state(), WattBudget::State::Unbounded);
}

TEST(WattBudget, SaysThatABudgetBelowIdlePowerCannotBeKept) {
  RandomStream random = a_stream(1);
  Node node(2, 0.01);
  node.budget.set(Milliwatts(90'000), node.now);  // two idle GPUs draw 104 W
  node.periods(1, random);
  EXPECT_EQ(node.budget.state(), WattBudget::State::Over);
  node.periods(20, random);
  EXPECT_EQ(node.budget.state(), WattBudget::State::Unreachable);
  EXPECT_EQ(node.budget.ceiling(0), kLeastClock);
  EXPECT_GE(node.budget.over(), 20);
  node.budget.set(Milliwatts(500'000), node.now);
  node.periods(60, random);
  EXPECT_EQ(node.budget.state(), WattBudget::State::Kept);
  EXPECT_GT(node.budget.ceiling(0), kLeastClock);
}

TEST(WattBudget, AGpuThatCannotBeReadCountsAsWhatItMayDraw) {
  RandomStream random = a_stream(1);
  Node node(2, 0.0);
  node.budget.set(Milliwatts(500'000), node.now);
  for (auto& gpu : node.gpus) gpu.load = 0.2;
  node.periods(10, random);
  EXPECT_FALSE(node.budget.binds()) << "240 W";
  node.gpus[0].reads = false;
  node.periods(3, random);
  EXPECT_FALSE(node.budget.binds()) << "a reading or two may fail";
  EXPECT_EQ(node.budget.blind(), 3);
  node.gpus[1].load = 1.0;  // 400 W, and the other may draw as much
  node.periods(20, random);
  EXPECT_LT(node.budget.ceiling(1), kHighest);
  const MegaHertz held = node.budget.ceiling(1);
  node.gpus[1].load = 0.0;
  node.periods(20, random);
  EXPECT_LE(node.budget.ceiling(1), held) << "nothing rises unseen";
  node.gpus[0].reads = true;
  node.periods(60, random);
  EXPECT_FALSE(node.budget.binds());
}

TEST(WattBudget, AGpuWhoseClockIsNotToBeHadOnlyCounts) {
  WattBudget budget({{MegaHertz(0), MegaHertz(0), {}}, {kLeastClock, kHighest, kMost}});
  budget.set(Milliwatts(500'000), Instant());
  Instant now;
  for (int i = 0; i < 20; ++i) {
    now = now + kPeriod;
    const Milliwatts second(100'000 + 300'000 * budget.ceiling(1).value() / kHighest.value());
    const std::vector<WattBudget::Reading> readings{{Milliwatts(200'000), {}, false}, {second, {}, false}};
    (void)budget.decide(readings, now);
  }
  EXPECT_EQ(budget.ceiling(0), MegaHertz(0)) << "none";
  EXPECT_LT(budget.ceiling(1), kHighest);
  EXPECT_LE(budget.drawn(), Milliwatts(500'000));
}

TEST(WattBudget, DecidesOnceAPeriod) {
  WattBudget budget(Node::groups(1));
  budget.set(Milliwatts(100'000), Instant());
  const std::vector<WattBudget::Reading> readings{{Milliwatts(400'000), {}, false}};
  const Instant start(1'000'000'000);
  EXPECT_TRUE(budget.decide(readings, start));
  EXPECT_EQ(budget.next(), start + kPeriod);
  EXPECT_FALSE(budget.decide(readings, start + Span::ms(999)));
  EXPECT_EQ(budget.over(), 1);
  EXPECT_TRUE(budget.decide(readings, start + kPeriod));
}

}  // namespace
}  // namespace wattle::policy
