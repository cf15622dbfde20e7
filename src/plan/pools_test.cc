#include "plan/pools.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "plan/milp.h"
#include "plan/pools_check.h"
#include "plan/test_pools.h"

namespace wattle::plan {
namespace {
using testing::small_problem;
using testing::SmallMode;
using testing::workers_in;

constexpr SmallMode tp2(double rate = 10.0) { return {{}, 700, 200, rate}; }

PoolsPlan planned(const PoolsProblem& problem, const PoolsOptions& options = {}, const PoolsPlan* previous = nullptr) {
  const auto plan = plan_pools(problem, options, previous);
  EXPECT_TRUE(plan.has_value()) << (plan ? "" : plan.error().message());
  for (const std::string& fault : check_pools(problem, options, *plan, previous)) ADD_FAILURE() << fault;
  return *plan;
}

SmallMode on(std::vector<int> gpus, SmallMode mode = tp2()) {
  mode.gpus = std::move(gpus);
  return mode;
}

TEST(Pools, GoesWhereElectricityIsClean) {
  const PoolsPlan plan = planned(small_problem({on({2})}, 15.0, {{{8}, 500.0}, {{8}, 100.0}}));
  EXPECT_EQ(plan.status, PoolsStatus::Planned);
  ASSERT_EQ(plan.pools.size(), 1U);
  EXPECT_EQ(plan.pools[0].site, 1U);
  EXPECT_EQ(plan.pools[0].workers, 2);  // 15 x 1.1 of 10 each
  EXPECT_NEAR(plan.pools[0].load_per_s, 15.0, 1e-9);
  // Two idle workers plus 15/s of 50 J each, for 300 s.
  EXPECT_NEAR(plan.energy.value(), 300 * (2 * 200 + 15 * 50.0), 1e-6);
  EXPECT_NEAR(plan.carbon.value(), plan.energy.value() / 3.6e6 * 100, 1e-9);
  EXPECT_NEAR(plan.objective, plan.carbon.value(), 1e-9);
}

TEST(Pools, WorkersAreOfModesThatCanBeStartedAtTheirSite) {
  for (const auto formulation : {PoolsFormulation::Wattle, PoolsFormulation::Published}) {
    PoolsOptions options;
    options.formulation = formulation;
    PoolsProblem problem = small_problem({on({2}), on({4}, tp2(25.0))}, 15.0, {{{8}, 500.0}, {{8}, 100.0}});
    const PoolsPlan free = planned(problem, options);
    problem.sites[1].modes = {false, true};
    for (const auto& pool : planned(problem, options).pools) EXPECT_TRUE(pool.site == 0 || pool.mode == 1);
    problem.sites[1].modes = {false, false};
    for (const auto& pool : planned(problem, options).pools) EXPECT_EQ(pool.site, 0U);
    EXPECT_FALSE(check_pools(problem, options, free).empty()) << "it has workers where none can be started";
    problem.sites[1].modes = {true};
    EXPECT_FALSE(plan_pools(problem, options).has_value());
  }
}

KeptShare kept_at(std::vector<bool> sites, double share) { return {std::move(sites), share}; }

TEST(Pools, WhatHasToStayAtSitesHasItsPlaceThere) {
  for (const auto formulation : {PoolsFormulation::Wattle, PoolsFormulation::Published}) {
    PoolsOptions options;
    options.formulation = formulation;
    PoolsProblem problem =
        small_problem({on({2})}, 27.0, {{{8}, 100.0}, {{8}, 500.0}, {{8}, 900.0}});  // three workers carry it
    const auto at = [&](std::size_t site) {
      int workers = 0;
      for (const auto& pool : planned(problem, options).pools) workers += pool.site == site ? pool.workers : 0;
      return workers;
    };
    EXPECT_EQ(at(0), 3);
    auto& kept = problem.partitions[0].types[0].kept;
    kept = {kept_at({false, true, true}, 0.3)};
    EXPECT_EQ(at(1), 1) << "the cleaner of the two";
    EXPECT_EQ(at(0), 2);
    // Each alone would fit into one worker; together they need two.
    kept = {kept_at({false, true, false}, 0.3), kept_at({false, true, false}, 0.3)};
    EXPECT_EQ(at(1), 2);
    kept = {kept_at({false, true, true}, 0.3), kept_at({false, false, true}, 0.3)};
    EXPECT_EQ(at(1) + at(2), 2);
    EXPECT_GE(at(2), 1);
  }
  PoolsProblem none = small_problem({on({2})}, 8.0, {{{8}, 100.0}, {{0}, 500.0}});
  none.partitions[0].types[0].kept = {kept_at({false, true}, 0.5)};
  const PoolsPlan shed = planned(none);
  EXPECT_EQ(shed.status, PoolsStatus::Shed);
  EXPECT_NEAR(shed.shed_per_s[0], 4.0, 1e-4) << "no more than has no place";
  EXPECT_NE(shed.reason.find("kept at sites"), std::string::npos) << shed.reason;
  none.partitions[0].types[0].kept = {kept_at({true}, 0.5)};
  EXPECT_FALSE(plan_pools(none, {}));
  none.partitions[0].types[0].kept = {kept_at({true, false}, 0.6), kept_at({true, true}, 0.6)};
  EXPECT_FALSE(plan_pools(none, {}));
}

TEST(Pools, PublishedChargesPeakPowerAndRewardsIdleWorkers) {
  const PoolsProblem problem = small_problem({on({2})}, 5.0, {{{8}, 500.0}, {{8}, -100.0}});
  PoolsOptions published;
  published.formulation = PoolsFormulation::Published;
  const PoolsPlan as_released = planned(problem, published);
  EXPECT_EQ(workers_in(as_released), 4);  // every worker that fits, for its credit
  EXPECT_NEAR(as_released.energy.value(), 300 * 4 * 700, 1e-6);
  EXPECT_EQ(workers_in(planned(problem)), 1);
}

TEST(Pools, NodesHoldWholeWorkers) {
  const std::vector<SmallMode> modes = {on({2}), on({4}, {{}, 700, 200, 30.0})};
  const auto demand = [&](double rate, std::vector<int> nodes) {
    PoolsProblem problem = small_problem(modes, rate, {{{9}, 100.0}});
    problem.sites[0].nodes = {std::move(nodes)};
    return problem;
  };
  EXPECT_EQ(planned(demand(27.0, {9})).pools[0].mode, 1U);
  const PoolsPlan small = planned(demand(27.0, {3, 3, 3}));
  EXPECT_EQ(small.pools[0].mode, 0U) << "no node has four";
  EXPECT_EQ(small.pools[0].workers, 3);
  const PoolsPlan full = planned(demand(40.0, {3, 3, 3}));
  EXPECT_NEAR(full.shed_per_s[0], 10.0, 1e-4) << "a GPU of each node is left over";
  EXPECT_NE(full.reason.find("K0 GPUs (9 in all, as their nodes hold them)"), std::string::npos) << full.reason;
  EXPECT_EQ(planned(demand(54.0, {4, 5})).pools.size(), 1U);
  EXPECT_FALSE(plan_pools(demand(9.0, {4, 4}), {})) << "that is eight";
}

TEST(Pools, LatencyLimitsExcludeModes) {
  PoolsProblem problem = small_problem({on({2}), on({4}, {{}, 900, 500, 10.0})}, 5.0, {{{8}, 100.0}});
  problem.partitions[0].types[0].ratings[0]->ttft = Span::ms(400);
  problem.partitions[0].types[0].ttft_limit = Span::ms(300);
  const PoolsPlan plan = planned(problem);
  ASSERT_EQ(plan.pools.size(), 1U);
  EXPECT_EQ(plan.pools[0].mode, 1U);
}

TEST(Pools, RelaxesTheMarginThenShedsAndSaysWhatBinds) {
  PoolsOptions options;
  options.alpha = 1.1;
  const auto demand = [](double rate) { return small_problem({on({2, 0})}, rate, {{{4, 8}, 100.0}, {{4, 8}, 200.0}}); };
  EXPECT_EQ(planned(demand(36.0), options).status, PoolsStatus::Planned);
  const PoolsPlan relaxed = planned(demand(38.0), options);
  EXPECT_EQ(relaxed.status, PoolsStatus::Relaxed);
  EXPECT_EQ(relaxed.alpha, 1.0);
  ASSERT_EQ(relaxed.binding.size(), 2U);
  EXPECT_EQ(relaxed.binding[0], "demand of SS (38/s x 1.1)");
  EXPECT_EQ(relaxed.binding[1], "K0 GPUs (8 in all)");
  EXPECT_NE(relaxed.reason.find("K0 GPUs"), std::string::npos);
  const PoolsPlan shed = planned(demand(50.0), options);
  EXPECT_EQ(shed.status, PoolsStatus::Shed);
  EXPECT_NEAR(shed.shed_per_s[0], 10.0, 1e-4);
  EXPECT_EQ(workers_in(shed), 4);
  options.formulation = PoolsFormulation::Published;
  const PoolsPlan none = planned(demand(50.0), options);
  EXPECT_EQ(none.status, PoolsStatus::Infeasible);
  EXPECT_TRUE(none.pools.empty());
  EXPECT_EQ(none.binding.size(), 2U);
}

TEST(Pools, NamesTheLimitNoModeMeets) {
  PoolsProblem problem = small_problem({on({2})}, 5.0, {{{8}, 100.0}});
  problem.partitions[0].types[0].ratings[0]->ttft = Span::ms(400);
  problem.partitions[0].types[0].ttft_limit = Span::ms(300);
  const PoolsPlan plan = planned(problem);
  EXPECT_EQ(plan.status, PoolsStatus::Shed);
  EXPECT_NEAR(plan.shed_per_s[0], 5.0, 1e-6);
  ASSERT_EQ(plan.binding.size(), 1U);
  EXPECT_EQ(plan.binding[0],
            "latency limits of SS: no mode serves it within them; nearest is M0 with TTFT 400 ms, limit 300 ms");
}

TEST(Pools, SwitchingHasAPrice) {
  PoolsOptions options;
  options.start_time = Span::s(60);
  const auto at = [](double here, double there) { return small_problem({on({2})}, 8.0, {{{8}, here}, {{8}, there}}); };
  const PoolsPlan before = planned(at(100, 200), options);
  EXPECT_EQ(before.pools[0].site, 0U);
  const PoolsProblem higher = at(101, 100);  // 1 g/kWh is not worth a start of 60 s x 200 W
  EXPECT_EQ(planned(higher, options, &before).pools[0].site, 0U);
  EXPECT_EQ(planned(higher, options, &before).started, 0);
  EXPECT_EQ(planned(higher, options).pools[0].site, 1U);
  const PoolsPlan moved = planned(at(900, 100), options, &before);
  EXPECT_EQ(moved.pools[0].site, 1U);
  EXPECT_EQ(moved.started, 1);
}

TEST(Pools, PicksTheCheaperPartition) {
  PoolsProblem problem = small_problem({on({2})}, 25.0, {{{8}, 100.0}});
  problem.partitions.push_back(problem.partitions[0]);
  problem.partitions[1].name = "two";
  problem.partitions[1].types[0].ratings[0]->max_per_s = 30.0;
  const PoolsPlan plan = planned(problem);
  EXPECT_EQ(plan.partition, 1U);
  EXPECT_EQ(workers_in(plan), 1);
}

TEST(Pools, MixedObjectivesWeighShares) {
  // Site 0 is clean and expensive, site 1 dirty and cheap.
  PoolsProblem problem = small_problem({on({2})}, 5.0, {{{8}, 100.0}, {{8}, 200.0}});
  problem.sites[0].price_usd_per_kwh = {0.2};
  problem.sites[1].price_usd_per_kwh = {0.1};
  PoolsOptions options;
  options.objective = {.carbon = 0.0, .energy = 0.0, .cost = 1.0};
  EXPECT_EQ(planned(problem, options).pools[0].site, 1U);
  options.objective = {.carbon = 0.6, .energy = 0.0, .cost = 0.4};
  EXPECT_EQ(planned(problem, options).pools[0].site, 0U);
  options.objective = {.carbon = 0.4, .energy = 0.0, .cost = 0.6};
  EXPECT_EQ(planned(problem, options).pools[0].site, 1U);
}

TEST(Pools, RefusesWhatCannotBeMeant) {
  const PoolsProblem good = small_problem({on({2})}, 5.0, {{{8}, 100.0}});
  const auto refused = [](const PoolsProblem& problem, const PoolsOptions& options = {}) {
    const auto plan = plan_pools(problem, options);
    return plan ? std::string("accepted") : plan.error().message();
  };
  PoolsProblem bad = good;
  bad.sites[0].intensity.push_back(GramsPerKwh(1));
  EXPECT_NE(refused(bad).find("slots"), std::string::npos) << refused(bad);
  bad = good;
  bad.sites[0].intensity[0] = GramsPerKwh(std::nan(""));
  EXPECT_EQ(refused(bad), "S0: an intensity or price is not a finite number");
  bad = good;
  bad.partitions[0].types[0].demand_per_s[0] = -1;
  EXPECT_EQ(refused(bad), "one SS: a demand is -1 requests/s; it must be from 0 to 1e+09");
  for (const double demand : {std::nan(""), 1e10, 1e120}) {  // Clp ends the process at 1e100
    bad.partitions[0].types[0].demand_per_s[0] = demand;
    EXPECT_NE(refused(bad).find("it must be from 0 to 1e+09"), std::string::npos) << refused(bad);
  }
  EXPECT_EQ(refused(good, {.objective = {}, .alpha = 0.9}), "alpha: is 0.9; it must be at least 1 and below 100");
  EXPECT_EQ(refused(good, {.objective = {.carbon = 0.0, .energy = 0.0, .cost = 1.0}}),
            "objective: cost needs a price series for every site");
}

/// Large enough for the two-step solution: its counts are whole, its bound holds, and it passes the check.
TEST(Pools, LargeProgramsArePlannedWithinTheirBound) {
  std::vector<SmallMode> modes;
  for (int m = 0; m < 8; ++m)
    modes.push_back({{m % 2 ? 4 : 2, m / 4 ? 2 : 0}, 900.0 + 90 * m, 200.0 + 30 * m, 4.0 + m});
  std::vector<std::pair<std::vector<int>, double>> sites;
  for (int n = 0; n < 40; ++n) sites.push_back({{4 + n % 7 * 2, n % 5 * 2}, 90.0 + 37 * (n * 7 % 40)});
  const PoolsProblem problem = small_problem(modes, 333.3, sites);
  PoolsOptions options;
  options.relative_gap = 1e-2;
  for (const PoolsFormulation formulation : {PoolsFormulation::Published, PoolsFormulation::Wattle}) {
    options.formulation = formulation;
    const PoolsPlan plan = planned(problem, options);
    EXPECT_EQ(plan.status, PoolsStatus::Planned);
    EXPECT_LE(plan.objective - plan.bound, 0.05 * plan.objective);
  }
}

PoolsProblem random_problem() {
  const auto sites = *rc::gen::inRange<std::size_t>(1, 4);
  const auto modes = *rc::gen::inRange<std::size_t>(1, 4);
  std::vector<SmallMode> all_modes;
  for (std::size_t m = 0; m < modes; ++m) {
    const double idle = *rc::gen::inRange(20, 400);
    const std::vector<int> gpus = {*rc::gen::inRange(0, 5), *rc::gen::inRange(0, 3)};
    all_modes.push_back({gpus[0] + gpus[1] > 0 ? gpus : std::vector<int>{1, 0}, idle + *rc::gen::inRange(0, 900), idle,
                         *rc::gen::inRange(0, 60) * 0.25});
  }
  std::vector<std::pair<std::vector<int>, double>> all_sites;
  for (std::size_t n = 0; n < sites; ++n) {
    all_sites.push_back({{*rc::gen::inRange(0, 9), *rc::gen::inRange(0, 5)}, *rc::gen::inRange(-900, 900) * 1.0});
  }
  return small_problem(all_modes, *rc::gen::inRange(0, 80) * 0.5, all_sites);
}

RC_GTEST_PROP(PoolsProperty, PlansPassTheCheckAndNoWorkerIdlesForCredit, ()) {
  const PoolsProblem problem = random_problem();
  const auto plan = plan_pools(problem, {});
  RC_ASSERT(plan.has_value());
  RC_ASSERT(plan->found());  // shedding is always possible
  RC_ASSERT(check_pools(problem, {}, *plan) == std::vector<std::string>());
  for (const WorkerPool& pool : plan->pools) {
    const double each = problem.partitions[0].types[0].ratings[pool.mode]->max_per_s / plan->alpha;
    RC_ASSERT(pool.load_per_s > each * (pool.workers - 1) - 1e-6);  // with one less it would not fit
  }
}

/// The same requests cut in two ways, of which one takes more power for all of them: it is never the better one.
RC_GTEST_PROP(PoolsProperty, NoIntensityMakesWasteThePlan, ()) {
  PoolsProblem problem = random_problem();
  auto& types = problem.partitions[0].types;
  types.push_back(types[0]);
  types[1].demand_per_s[0] = *rc::gen::inRange(0, 40) * 0.5;
  const std::size_t lean = *rc::gen::inRange<std::size_t>(0, 2);
  const double waste = *rc::gen::inRange(15, 40) / 10.0;
  problem.partitions.push_back(problem.partitions[0]);
  for (PoolType& type : problem.partitions[1 - lean].types) {
    for (auto& rating : type.ratings) {
      rating->peak = rating->peak * waste;
      rating->idle = rating->idle * waste;
    }
  }
  const auto plan = plan_pools(problem, {});
  RC_ASSERT(plan.has_value());
  RC_ASSERT(check_pools(problem, {}, *plan) == std::vector<std::string>());
  if (plan->status != PoolsStatus::Shed && !plan->pools.empty()) RC_ASSERT(plan->partition == lean);
}

/// Where all sites have the same negative intensity, the plan is the one of least energy.
TEST(Pools, WhereAnyPlaceEarnsTheSameLeastEnergyDecides) {
  const auto at = [](double intensity) {
    PoolsProblem problem =
        small_problem({on({2}), on({4}, {{}, 1500, 300, 24.0})}, 20.0, {{{8}, intensity}, {{8}, intensity}});
    // The other cut of the same requests: fewer in all are heavy ones, but each takes more.
    problem.partitions.push_back({"two", {problem.partitions[0].types[0], problem.partitions[0].types[0]}});
    for (PoolType& type : problem.partitions[1].types) type.demand_per_s[0] /= 2.0;
    for (auto& rating : problem.partitions[1].types[1].ratings) rating->max_per_s /= 3.0;
    return planned(problem);
  };
  const PoolsPlan free = at(0.0), rewarded = at(-300.0);
  EXPECT_EQ(free.partition, 0U);
  EXPECT_EQ(rewarded.partition, 0U);
  EXPECT_NEAR(rewarded.energy.value(), free.energy.value(), 1e-3 * free.energy.value());
}

RC_GTEST_PROP(PoolsProperty, WorkersFitTheNodes, ()) {
  const std::vector<SmallMode> modes = {on({1}, tp2(4.0)), on({2}, tp2(9.0)), on({4}, tp2(20.0)), on({8}, tp2(44.0))};
  PoolsProblem problem = small_problem(modes, *rc::gen::inRange(0, 120) * 0.5, {{{0}, 100.0}, {{0}, -200.0}});
  for (PoolSite& site : problem.sites) {
    site.nodes = {*rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 13))};
    site.gpus[0] = std::accumulate(site.nodes[0].begin(), site.nodes[0].end(), 0);
  }
  PoolsOptions options;
  options.formulation = *rc::gen::element(PoolsFormulation::Wattle, PoolsFormulation::Published);
  const auto plan = plan_pools(problem, options);
  RC_ASSERT(plan.has_value());
  RC_ASSERT(check_pools(problem, options, *plan) == std::vector<std::string>());
}

RC_GTEST_PROP(PoolsProperty, PublishedPlansPassTheCheck, ()) {
  const PoolsProblem problem = random_problem();
  PoolsOptions options;
  options.formulation = PoolsFormulation::Published;
  const auto plan = plan_pools(problem, options);
  RC_ASSERT(plan.has_value());
  RC_ASSERT(plan->status == PoolsStatus::Planned || plan->status == PoolsStatus::Infeasible);
  RC_ASSERT(check_pools(problem, options, *plan) == std::vector<std::string>());
}

/// The least cost over all counts of workers, loads given out cheapest first.
double by_enumeration(const PoolsProblem& problem, double alpha) {
  const PoolType& type = problem.partitions[0].types[0];
  struct Choice {
    std::size_t site, mode;
  };
  std::vector<Choice> choices;
  double magnitude = 0.0;
  for (std::size_t n = 0; n < problem.sites.size(); ++n) {
    magnitude += std::abs(problem.sites[n].intensity[0].value() / 3.6e6) / static_cast<double>(problem.sites.size());
    for (std::size_t m = 0; m < problem.modes.size(); ++m) {
      if (type.ratings[m]->max_per_s > 0.0) choices.push_back({n, m});
    }
  }
  const double least = magnitude > 0.0 ? 1e-3 * magnitude : 1.0;
  const auto joules_per_request = [&](std::size_t m) {
    return (type.ratings[m]->peak - type.ratings[m]->idle).value() / type.ratings[m]->max_per_s;
  };
  double leanest = kNoLimit;
  for (const Choice& c : choices) leanest = std::min(leanest, joules_per_request(c.mode));
  std::vector<int> workers(choices.size(), 0);
  double best = kNoLimit;
  const std::function<void(std::size_t)> visit = [&](std::size_t i) {
    if (i < choices.size()) {
      for (workers[i] = 0;; ++workers[i]) {
        for (std::size_t c = 0; c < problem.kinds.size(); ++c) {
          int used = 0;
          for (std::size_t k = 0; k <= i; ++k) {
            if (choices[k].site == choices[i].site) used += workers[k] * problem.modes[choices[k].mode].gpus[c];
          }
          if (used > problem.sites[choices[i].site].gpus[c]) return;
        }
        visit(i + 1);
      }
    }
    std::vector<std::pair<double, double>> offers;  // cost and amount of load
    double cost = 0.0;
    for (std::size_t k = 0; k < choices.size(); ++k) {
      const auto [n, m] = choices[k];
      const double w = problem.sites[n].intensity[0].value() / 3.6e6;
      cost += workers[k] * type.ratings[m]->idle.value() * 300 * std::max(w, least);
      offers.emplace_back(300 * (joules_per_request(m) * std::max(w, least) + leanest * std::min(0.0, w)),
                          workers[k] * type.ratings[m]->max_per_s / alpha);
    }
    std::ranges::sort(offers);
    double left = type.demand_per_s[0];
    for (const auto& [price, amount] : offers) {
      const double load = std::min(left, amount);
      cost += load * price;
      left -= load;
    }
    if (left < 1e-9) best = std::min(best, cost);
  };
  visit(0);
  return best;
}

RC_GTEST_PROP(PoolsProperty, MatchesEnumeration, ()) {
  std::vector<SmallMode> modes;
  for (int m = 0; m < 2; ++m) {
    const double idle = *rc::gen::inRange(20, 400);
    modes.push_back(
        {{*rc::gen::inRange(1, 4)}, idle + *rc::gen::inRange(0, 900), idle, *rc::gen::inRange(1, 60) * 0.25});
  }
  const PoolsProblem problem = small_problem(modes, *rc::gen::inRange(0, 40) * 0.5,
                                             {{{*rc::gen::inRange(0, 6)}, *rc::gen::inRange(-500, 900) * 1.0},
                                              {{*rc::gen::inRange(0, 6)}, *rc::gen::inRange(-500, 900) * 1.0}});
  const double best = by_enumeration(problem, 1.1);
  const auto plan = plan_pools(problem, {});
  RC_ASSERT(plan.has_value());
  RC_ASSERT((plan->status == PoolsStatus::Planned) == (best < kNoLimit));
  if (plan->status == PoolsStatus::Planned) {
    RC_ASSERT(std::abs(plan->objective - best) <= 1e-5 * std::max(0.1, std::abs(best)));
  }
}

/// A checker that finds nothing is no check: each of these must be found.
TEST(PoolsCheck, FindsPlantedFaults) {
  const PoolsProblem problem =
      small_problem({on({2}), on({4}, {{}, 1500, 300, 24.0})}, 30.0, {{{8}, 100.0}, {{8}, 200.0}});
  const PoolsPlan good = planned(problem);
  const auto faults = [&](const std::function<void(PoolsPlan&)>& plant) {
    PoolsPlan plan = good;
    plant(plan);
    return check_pools(problem, {}, plan).size();
  };
  EXPECT_EQ(faults([](PoolsPlan&) {}), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.pools[0].workers += 9; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.pools[0].workers -= 1; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.pools[0].load_per_s *= 0.9; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.pools[0].site = 1 - p.pools[0].site; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.pools[0].mode = 7; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.pools.push_back(p.pools[0]); }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.objective *= 1.001; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.energy = p.energy * 1.001; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.carbon = p.carbon * 1.001; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.bound = p.objective * 1.1; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.alpha = 1.0; }), 0U);
  EXPECT_GT(faults([](PoolsPlan& p) { p.shed_per_s[0] = 3.0; }), 0U);
  PoolsOptions bare;
  bare.alpha = 1.0;
  PoolsPlan nothing_shed = planned(problem, bare);
  nothing_shed.status = PoolsStatus::Shed;
  EXPECT_FALSE(check_pools(problem, bare, nothing_shed).empty());
  PoolsProblem smaller = problem;
  for (PoolSite& site : smaller.sites) site.nodes = {{3, 3, 2}};
  EXPECT_FALSE(check_pools(smaller, {}, good).empty());
  PoolsProblem paid = problem;
  for (PoolSite& site : paid.sites) site.intensity = {GramsPerKwh(-100.0)};
  const PoolsPlan earning = planned(paid);
  paid.partitions.push_back(paid.partitions[0]);
  for (auto& rating : paid.partitions[1].types[0].ratings) rating->peak = (rating->peak + rating->idle) * 0.5;
  EXPECT_FALSE(check_pools(paid, {}, earning).empty()) << "there is a leaner way, so that less is earned";
  PoolsProblem slower = problem;
  for (auto& rating : slower.partitions[0].types[0].ratings) rating->tbt = Span::ms(200);
  slower.partitions[0].types[0].tbt_limit = Span::ms(150);
  EXPECT_FALSE(check_pools(slower, {}, good).empty());
}

TEST(Pools, AnAbsurdDemandCostsNoOtherTypeItsRequests) {
  for (const double absurd : {60.0, 1e5, 1e9}) {
    auto problem = small_problem({{{1}, 400, 120, 2.0}, {{2}, 900, 270, 4.5}}, 3.0, {{{8}, 100}, {{8}, 500}});
    auto& types = problem.partitions[0].types;
    for (const double demand : {0.01, absurd, 5.0}) {
      types.push_back(types[0]);
      types.back().name = std::to_string(types.size());
      types.back().demand_per_s = {demand};
    }
    const PoolsPlan plan = planned(problem);
    EXPECT_EQ(plan.status, PoolsStatus::Shed);
    for (const std::size_t r : {0U, 1U, 3U}) EXPECT_LT(plan.shed_per_s[r], 1e-3 * types[r].demand_per_s[0]) << absurd;
    EXPECT_GT(plan.shed_per_s[2], 0.0);
    EXPECT_EQ(plan.reason.find("of SS"), std::string::npos) << plan.reason;
    EXPECT_NE(plan.reason.find("/s of 3 shed"), std::string::npos) << plan.reason;
  }
}

TEST(Pools, any_demand_above_what_sites_carry_is_shed_not_died_of) {
  for (const double demand : {18.5, 23.3, 60.0, 99.5, 100.0, 1000.0, 1e5}) {
    auto problem = small_problem({{{1}, 400, 120, 2.0}, {{2}, 900, 270, 4.5}}, demand, {{{8}, 100}, {{8}, 500}});
    problem.partitions[0].types.push_back(problem.partitions[0].types[0]);
    const auto plan = plan_pools(problem, {});
    ASSERT_TRUE(plan.has_value());
    EXPECT_EQ(plan->status, PoolsStatus::Shed) << demand;
    EXPECT_NEAR(plan->shed_per_s[0] + plan->shed_per_s[1], 2.0 * demand - 36.0, 1e-5 * demand) << demand;
  }
}

}  // namespace
}  // namespace wattle::plan
