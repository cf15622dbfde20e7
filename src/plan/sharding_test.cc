#include "plan/sharding.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "plan/sharding_check.h"
#include "plan/test_sharding.h"

namespace wattle::plan {
namespace {
using testing::formula_class;
using testing::formula_cluster;

ShardingPlan planned(const ShardingProblem& problem, const ShardingOptions& options = {}) {
  const auto plan = plan_sharding(problem, options);
  EXPECT_TRUE(plan.has_value()) << (plan ? "" : plan.error().message());
  for (const std::string& fault : check_sharding(problem, *plan)) ADD_FAILURE() << fault;
  return *plan;
}

constexpr double kNone = 0.0;  // an empty cell: the limits are missed
struct TableRow {
  const char* name;
  std::array<double, 12> wh;  // TP2, TP4, TP8, each at 0.8, 1.2, 1.6 and 2.0 GHz
  int tp, mhz;                // the printed minimum
};
constexpr std::array<int, 4> kClocks = {800, 1200, 1600, 2000};

/// Tables I and III of the paper: at one load, energy of a run of fixed length, so in proportion to power.
constexpr std::array<TableRow, 15> kOneLoad = {{
    {"SS", {kNone, 0.77, 0.97, 1.03, 0.94, 0.79, 0.91, 1.01, 1.35, 1.19, 1.29, 1.49}, 2, 1200},
    {"SM", {kNone, 2.78, 3.45, 3.68, 3.39, 2.82, 3.37, 3.81, 4.55, 4.15, 4.43, 4.74}, 2, 1200},
    {"SL", {kNone, kNone, kNone, kNone, 4.84, 4.17, 4.97, 5.52, 6.37, 5.62, 5.59, 6.95}, 4, 1200},
    {"MS", {kNone, kNone, 1.02, 1.09, kNone, 1.08, 1.07, 1.20, 1.51, 1.29, 1.34, 1.73}, 2, 1600},
    {"MM", {kNone, kNone, kNone, kNone, kNone, 4.23, 3.91, 4.08, 5.34, 4.39, 4.56, 5.44}, 4, 1600},
    {"ML", {kNone, kNone, kNone, kNone, kNone, 4.99, 4.66, 4.53, 6.86, 5.79, 6.52, 7.12}, 4, 2000},
    {"LS", {kNone, kNone, kNone, kNone, kNone, 1.51, 1.64, 1.76, 2.55, 2.53, 2.83, 2.94}, 4, 1200},
    {"LM", {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, 7.71, 8.81, 9.17}, 8, 1200},
    {"LL", {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, 12.99, 11.89, 13.21}, 8, 1600},
    {"Llama2-13B", {1.05, 0.99, 1.14, 1.24, 1.52, 1.27, 1.58, 1.65, 2.61, 2.35, 2.74, 3.45}, 2, 1200},
    {"Mixtral-8x7B", {1.03, 0.98, 1.21, 1.32, 1.39, 1.51, 2.09, 2.31, 2.57, 3.06, 3.71, 4.66}, 2, 1200},
    {"Llama2-70B", {kNone, kNone, kNone, kNone, kNone, 4.23, 3.91, 4.08, 5.34, 4.39, 4.56, 5.44}, 4, 1600},
    {"Llama3-70B", {kNone, kNone, kNone, kNone, kNone, 4.32, 4.28, 4.57, 6.11, 5.18, 5.42, 6.45}, 4, 1600},
    {"Mixtral-8x22B", {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, 3.83, 3.23, 3.65, 4.03}, 8, 1200},
    {"Falcon-180B", {kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, 9.56, 7.94, 8.57, 10.34}, 8, 1200},
}};

TEST(Sharding, AClassThatDoesNotForwardCarriesItsOwn) {
  auto problem = testing::formula_cluster(96, 2.0, 3);
  problem.classes[1].forwards = false;
  const auto shares = share_nodes(problem, 8);
  EXPECT_GT(shares[0].forwarded_per_s, 0.0);
  EXPECT_EQ(shares[1].forwarded_per_s, 0.0);
  EXPECT_EQ(shares[1].shed_per_s, 0.0);
  const auto whole = plan_sharding(problem, {.relative_gap = 1e-2});
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->status, ShardingStatus::Planned);
  EXPECT_NEAR(whole->forwarded_per_s[1], 0.0, 1e-9);
}

TEST(Sharding, PoolsOfTheirOwnSharedWhereThereAreFewerNodesThanPools) {
  const auto shed = [](int nodes, NodeRounding rounding) {
    double all = 0.0;
    for (const auto& share : share_nodes(testing::formula_cluster(8 * nodes, 0.5, 9), 8, rounding)) {
      all += share.shed_per_s;
    }
    return all;
  };
  EXPECT_EQ(shed(9, NodeRounding::Up), 0.0) << "one for each";
  EXPECT_EQ(shed(4, NodeRounding::Down), 0.0);
  EXPECT_EQ(shed(4, NodeRounding::Up), 0.0) << "so few requests need not be refused";
}

TEST(Sharding, FindsThePrintedMinimaAtOneLoad) {
  for (const TableRow& row : kOneLoad) {
    ShardingProblem problem;
    ShardClass one;
    one.name = row.name;
    one.load_per_s = 2000;  // tokens/s
    one.limits.ttft = Span::ms(400);
    for (std::size_t i = 0; i < row.wh.size(); ++i) {
      ShardProfile profile{2 << (i / 4), MegaHertz(kClocks[i % 4]), {}};
      const Span ttft = row.wh[i] == kNone ? Span::ms(800) : Span::ms(300);
      for (const double load : {0.0, 2000.0}) {
        profile.points.push_back({.load_per_s = load, .power = Watts(row.wh[i]), .ttft = ttft, .tbt = Span()});
      }
      one.profiles.push_back(profile);
    }
    problem.classes = {one};
    const ShardingPlan plan = planned(problem);
    ASSERT_EQ(plan.groups.size(), 1U) << row.name;
    EXPECT_EQ(plan.groups[0].instances, 1) << row.name;
    EXPECT_EQ(plan.groups[0].tp, row.tp) << row.name;
    EXPECT_EQ(plan.groups[0].clock, MegaHertz(row.mhz)) << row.name;
  }
}

/// Table II: MM requests at 650, 2000 and 4000 tokens/s; a configuration ends where its cell is empty. Nothing is
/// printed below 650 tokens/s: that power is taken to hold down to 0.
TEST(Sharding, FindsThePrintedMinimaAtEveryLoad) {
  constexpr std::array<std::array<double, 12>, 3> kWh = {{
      {kNone, kNone, 3.41, 3.75, 3.44, 2.93, 3.71, 3.73, 4.49, 3.76, 4.52, 4.64},
      {kNone, kNone, kNone, kNone, kNone, 4.23, 3.91, 4.08, 5.34, 4.39, 4.56, 5.44},
      {kNone, kNone, kNone, kNone, kNone, kNone, 4.22, 4.13, 5.86, 5.24, 5.42, 6.62},
  }};
  constexpr std::array<double, 3> kLoads = {650, 2000, 4000};
  ShardingProblem problem;
  problem.classes.resize(1);
  problem.classes[0].name = "MM";
  for (std::size_t i = 0; i < 12; ++i) {
    if (kWh[0][i] == kNone) continue;
    ShardProfile profile{2 << (i / 4), MegaHertz(kClocks[i % 4]), {}};
    profile.points.push_back({.load_per_s = 0, .power = Watts(kWh[0][i]), .ttft = Span(), .tbt = Span()});
    for (std::size_t l = 0; l < 3 && kWh[l][i] != kNone; ++l) {
      profile.points.push_back({.load_per_s = kLoads[l], .power = Watts(kWh[l][i]), .ttft = Span(), .tbt = Span()});
    }
    problem.classes[0].profiles.push_back(profile);
  }
  constexpr std::array<int, 3> kClock = {1200, 1600, 2000};  // all TP4
  for (std::size_t l = 0; l < 3; ++l) {
    problem.classes[0].load_per_s = kLoads[l];
    const ShardingPlan plan = planned(problem);
    ASSERT_EQ(plan.groups.size(), 1U);
    EXPECT_EQ(plan.groups[0].tp, 4);
    EXPECT_EQ(plan.groups[0].clock, MegaHertz(kClock[l]));
    EXPECT_NEAR(plan.power.value(), kWh[l][static_cast<std::size_t>(kClock[l] / 400 - 2 + 4)], 1e-9);
  }
}

TEST(Sharding, InstancesOfOneDegreeShareLoadAndClock) {
  // Power that rises fast and then stays flat: one full and one idle instance would draw less than two at half load.
  ShardingProblem problem;
  ShardClass one;
  one.name = "MM";
  one.load_per_s = 10;
  ShardProfile profile{2, MegaHertz(1000), {}};
  profile.points.push_back({.load_per_s = 0, .power = Watts(100), .ttft = Span(), .tbt = Span()});
  profile.points.push_back({.load_per_s = 2, .power = Watts(900), .ttft = Span(), .tbt = Span()});
  profile.points.push_back({.load_per_s = 8, .power = Watts(1000), .ttft = Span(), .tbt = Span()});
  one.profiles = {profile};
  problem.classes = {one};
  const ShardingPlan plan = planned(problem);
  ASSERT_EQ(plan.groups.size(), 1U);
  EXPECT_EQ(plan.groups[0].instances, 2);
  EXPECT_NEAR(plan.groups[0].load_per_s, 5.0, 1e-6);
  EXPECT_NEAR(plan.power.value(), 1900.0, 1e-3);
}

TEST(Sharding, ShedsWhatDoesNotFitAndNamesTheLimit) {
  ShardingProblem problem;
  problem.gpus = 8;
  problem.classes = {formula_class("MM", 1.0, 100.0)};
  const ShardingPlan plan = planned(problem);
  EXPECT_EQ(plan.status, ShardingStatus::Shed);
  EXPECT_GT(plan.shed_per_s[0], 50.0);
  EXPECT_NE(plan.reason.find("8 GPUs carry no more"), std::string::npos) << plan.reason;
  problem.classes[0].limits.ttft = Span::ms(1);
  const ShardingPlan none = planned(problem);
  EXPECT_NEAR(none.shed_per_s[0], 100.0, 1e-6);
  EXPECT_TRUE(none.groups.empty());
  EXPECT_NE(none.reason.find("no configuration meets its limits, nearest is TP8 at 1980 MHz with TTFT"),
            std::string::npos)
      << none.reason;
}

TEST(Sharding, RefusesProfilesThatMakeNoSense) {
  ShardingProblem problem;
  problem.classes = {formula_class("MM", 1.0, 1.0)};
  problem.classes[0].profiles[3].points[2].load_per_s = 0.0;
  const auto plan = plan_sharding(problem);
  ASSERT_FALSE(plan.has_value());
  EXPECT_EQ(plan.error().message(), "MM TP2 at 1400 MHz: load 2 does not lie above the one before");
}

TEST(Levels, RoundDownAndForwardTheRest) {
  ShardingProblem problem;
  problem.gpus = 64;
  problem.classes = {formula_class("S", 1.0, 0.0), formula_class("L", 1.0, 0.0)};
  const double carries = *most_load(problem.classes[0].profiles.back(), problem.classes[0].limits);
  problem.classes[0].load_per_s = 2.5 * carries;
  problem.classes[1].load_per_s = 1.2 * carries;
  const auto plan = plan_by_levels(problem, {.gpus_per_node = 8});
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(check_sharding(problem, *plan), std::vector<std::string>());
  EXPECT_NEAR(plan->forwarded_per_s[0], 0.5 * carries, 1e-6);
  int small = 0;
  for (const InstanceGroup& group : plan->groups) small += group.pool == 0 ? group.tp * group.instances : 0;
  EXPECT_LE(small, 16);
  EXPECT_EQ(plan->status, ShardingStatus::Planned);
  const ShardingPlan whole = planned(problem);
  EXPECT_LE(whole.bound.value(), plan->power.value());
}

TEST(Levels, LoseLittleAndNeverGain) {
  const ShardingProblem problem = formula_cluster(64, 4.0, 3);
  const auto levels = plan_by_levels(problem, {.gpus_per_node = 8});
  ASSERT_TRUE(levels.has_value());
  EXPECT_EQ(check_sharding(problem, *levels), std::vector<std::string>());
  ShardingOptions options;
  options.relative_gap = 5e-3;
  const ShardingPlan whole = planned(problem, options);
  EXPECT_EQ(whole.status, ShardingStatus::Planned);
  EXPECT_LE(whole.bound.value(), levels->power.value());
  EXPECT_GT(levels->power.value(), 0.0);
  RecordProperty("loss_percent", std::to_string(100 * (levels->power / whole.power - 1)));
}

RC_GTEST_PROP(ShardingProperty, NoWorseThanAnyGridPoint, ()) {
  ShardingProblem problem;
  problem.gpus = *rc::gen::element(8, 10, 12);
  problem.unused_gpu = Watts(*rc::gen::element(0, 70, 300));
  problem.gpus_per_node = *rc::gen::element(0, 4, 8);
  problem.classes = {formula_class("MM", *rc::gen::inRange(5, 30) * 0.1, *rc::gen::inRange(1, 60) * 0.1)};
  const ShardClass& one = problem.classes[0];
  double best = 1e300;
  // Counts of each TP degree, loads in tenths, clocks one by one.
  const std::array<int, 3> degrees = {2, 4, 8};
  const auto least = [&](int tp, double load) {
    double watts = 1e300;
    for (const ShardProfile& profile : one.profiles) {
      const auto point = at_load(profile, load);
      if (profile.tp == tp && point && point->ttft <= one.limits.ttft && point->tbt <= one.limits.tbt) {
        watts = std::min(watts, point->power.value());
      }
    }
    return watts;
  };
  const std::function<void(std::size_t, int, int, double)> visit = [&](std::size_t d, int gpus, int left,
                                                                       double watts) {
    if (d == degrees.size()) {
      const int node = problem.gpus_per_node;
      const int unused = node == 0 ? gpus : (node - (problem.gpus - gpus) % node) % node;
      if (left == 0) best = std::min(best, watts + problem.unused_gpu.value() * unused);
      return;
    }
    visit(d + 1, gpus, left, watts);
    for (int n = 1; n * degrees[d] <= gpus; ++n) {
      for (int share = 0; share <= left; ++share) {
        const double each = least(degrees[d], one.load_per_s * share / 10.0 / n);
        if (each < 1e300) visit(d + 1, gpus - n * degrees[d], left - share, watts + n * each);
      }
    }
  };
  visit(0, problem.gpus, 10, 0.0);
  const auto plan = plan_sharding(problem, {.relative_gap = 0.0});
  RC_ASSERT(plan.has_value());
  RC_ASSERT(check_sharding(problem, *plan) == std::vector<std::string>());
  if (best < 1e300) {
    RC_ASSERT(plan->status == ShardingStatus::Planned);
    RC_ASSERT(plan->power.value() <= best * (1 + 1e-6));
  }
}

TEST(ShardingCheck, FindsPlantedFaults) {
  ShardingProblem problem;
  problem.gpus = 16;
  problem.classes = {formula_class("MM", 1.0, 6.0)};
  const ShardingPlan good = planned(problem);
  const auto faults = [&](const std::function<void(ShardingPlan&)>& plant) {
    ShardingPlan plan = good;
    plant(plan);
    return check_sharding(problem, plan).size();
  };
  EXPECT_EQ(faults([](ShardingPlan&) {}), 0U);
  EXPECT_GT(faults([](ShardingPlan& p) { p.groups[0].instances += 9; }), 0U);
  EXPECT_GT(faults([](ShardingPlan& p) { p.groups[0].load_per_s *= 0.9; }), 0U);
  EXPECT_GT(faults([](ShardingPlan& p) { p.groups[0].clock = MegaHertz(7); }), 0U);
  EXPECT_GT(faults([](ShardingPlan& p) { p.groups[0].power = p.groups[0].power * 0.9; }), 0U);
  EXPECT_GT(faults([](ShardingPlan& p) { p.groups.push_back(p.groups[0]); }), 0U);
  EXPECT_GT(faults([](ShardingPlan& p) { p.shed_per_s[0] = 1.0; }), 0U);
  EXPECT_GT(faults([](ShardingPlan& p) { p.forwarded_per_s[0] = 1.0; }), 0U);
  EXPECT_GT(faults([](ShardingPlan& p) { p.power = p.power * 0.9; }), 0U);
  EXPECT_GT(faults([](ShardingPlan& p) { p.bound = p.power * 1.1; }), 0U);
  ShardingProblem strict = problem;
  strict.classes[0].limits = {Span::ms(1), Span::ms(1)};
  EXPECT_FALSE(check_sharding(strict, good).empty());
}

}  // namespace
}  // namespace wattle::plan
