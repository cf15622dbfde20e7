// Classes, pools and what happens where a pool is full.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "control/fleet_driver_test.h"
#include "control/pool_router.h"
#include "policy/admission/bounded.h"
#include "policy/queueing/fcfs.h"
#include "policy/routing/least_energy.h"
#include "policy/routing/round_robin.h"
#include "policy/routing/weighted_round_robin.h"

namespace wattle::control {
namespace {

/// Capacity for any class and clock; power is 100 W plus `slope` W per request a second.
class Flat final : public LoadProfile {
 public:
  Flat(double most, double slope) : most_(most), slope_(slope) {}
  [[nodiscard]] double max_load_per_s(ClassId, MegaHertz) const override { return most_; }
  [[nodiscard]] LoadPoint at(ClassId, double load_per_s, MegaHertz) const override {
    return {Watts(100.0 + slope_ * load_per_s), Span(), Span()};
  }

 private:
  double most_;
  double slope_;
};

struct Fleet {
  std::deque<InstanceSpec> specs;
  std::vector<InstanceView> views;

  void add(std::int32_t pool, const LoadProfile* profile = nullptr) {
    InstanceSpec& spec = specs.emplace_back();
    spec.pool = PoolId(pool);
    spec.beliefs.load = profile;
    InstanceView view;
    view.id = InstanceId(static_cast<std::int32_t>(views.size()));
    view.spec = &spec;
    views.push_back(view);
  }
};

/// Nine classes; short answers are predicted.
FleetLoopOptions nine_classes(std::vector<Pool> pools) {
  FleetLoopOptions options;
  options.service.classes = Classifier({256, 1024}, {100, 350});
  options.service.pools = std::move(pools);
  return options;
}

Request sized(std::int64_t id, std::int32_t prompt, std::int32_t output) {
  Request r = request(id, prompt);
  r.predicted_output_tokens = output;
  r.max_tokens = 4096;
  return r;
}

const std::vector<Pool> kThree{{PoolId(0), "short", {ClassId(0), ClassId(1), ClassId(2)}},
                               {PoolId(1), "medium", {ClassId(3), ClassId(4), ClassId(5)}},
                               {PoolId(2), "long", {ClassId(6), ClassId(7), ClassId(8)}}};

TEST(PoolRouter, SharesAClassOutByWeightEvenlyInTime) {
  PoolRouter router({}, 2);
  const std::vector<PoolWeight> weights{
      {ClassId(0), PoolId(0), 0.75}, {ClassId(0), PoolId(1), 0.25}, {ClassId(1), PoolId(1), 1.0}};
  router.reroute(weights, 2);
  std::map<std::int32_t, int> first;
  for (int i = 0; i < 400; ++i) {
    ++first[router.next(ClassId(0)).pools.front().value()];
    EXPECT_NEAR(first[1], 0.25 * (i + 1), 1.0);
    EXPECT_EQ(router.next(ClassId(1)).pools.front(), PoolId(1));
  }
  EXPECT_EQ(first[0], 300);
}

TEST(PoolRouter, TheNextLargerPoolsFollowAndSmallerOnesForWantOfAnyOther) {
  PoolRouter router(kThree, 9);
  const auto order = [&](std::int32_t c) {
    const auto next = router.next(ClassId(c));
    std::vector<std::int32_t> pools;
    for (const PoolId p : next.pools) pools.push_back(p.value());
    return std::pair(pools, next.fit);
  };
  EXPECT_EQ(order(0), std::pair(std::vector<std::int32_t>({0, 1, 2}), std::size_t{3}));
  EXPECT_EQ(order(4), std::pair(std::vector<std::int32_t>({1, 2, 0}), std::size_t{2}));
  EXPECT_EQ(order(8), std::pair(std::vector<std::int32_t>({2, 1, 0}), std::size_t{1}));
  EXPECT_EQ(order(99), order(8)) << "a class that nobody has heard of is large";
}

TEST(FleetLoop, ARequestIsClassifiedAndGoesToItsClassesPool) {
  Fleet fleet;
  for (const std::int32_t pool : {0, 0, 1, 2}) fleet.add(pool);
  Journal journal;
  Driver driver;
  DispatchPolicies policies;
  policies.route_prefill = {std::make_shared<policy::RoundRobin>(), Mode::Enforce};
  FleetLoop loop(fleet.views, std::move(policies), 1, nine_classes(kThree), driver, journal);
  std::int64_t id = 0;
  const auto goes_to = [&](std::int32_t prompt, std::int32_t output) {
    ++id;
    loop.arrive(sized(id, prompt, output), 0, Instant(id));
    return driver.where.at(RequestId(id)).instance.value();
  };
  EXPECT_EQ(goes_to(10, 10), 0);
  EXPECT_EQ(goes_to(500, 10), 2);
  EXPECT_EQ(goes_to(10, 400), 1) << "in turn, each pool by itself";
  EXPECT_EQ(goes_to(5000, 400), 3);
  EXPECT_EQ(goes_to(10, 10), 0);
  EXPECT_EQ(goes_to(10, 0), 1) << "no prediction: SL";
  EXPECT_EQ(journal.count(journal::DecisionKind::Pool), 6);

  // Its pool is gone: the next larger one serves it; the largest pool's requests go to what is left.
  loop.remove_instance(InstanceId(0), Instant(10));
  loop.remove_instance(InstanceId(1), Instant(10));
  loop.remove_instance(InstanceId(3), Instant(10));
  EXPECT_EQ(goes_to(10, 10), 2);
  EXPECT_EQ(goes_to(5000, 400), 2);
  EXPECT_STREQ(journal.decisions.back().reason, "no pool of its own or larger");

  // A plan merges the pools.
  std::vector<PoolWeight> weights;
  for (std::int32_t c = 0; c < 9; ++c) weights.push_back({ClassId(c), PoolId(1), 1.0});
  loop.reroute(weights, Instant(11));
  EXPECT_EQ(goes_to(10, 10), 2);
  EXPECT_STREQ(journal.decisions.back().reason, "its class's share");
}

TEST(FleetLoop, WhatIsHeldOfAClassOfWhichNothingIsServedAnyMoreIsRefused) {
  Fleet fleet;
  for (const std::int32_t pool : {0, 1, 2}) fleet.add(pool);
  Journal journal;
  Driver driver;
  auto options = nine_classes(kThree);
  options.emergency.overflow = false;
  FleetLoop loop(fleet.views, {}, 1, options, driver, journal);
  for (const std::int32_t i : {0, 1, 2}) loop.set_accepting(InstanceId(i), false, Instant());
  for (const std::int64_t id : {1, 2}) loop.arrive(sized(id, 10, 10), 0, Instant(id));
  loop.arrive(sized(3, 5000, 400), 0, Instant(3));
  ASSERT_EQ(loop.counts().held, 3);
  const std::vector<PoolWeight> weights{{ClassId(0), PoolId(0), 0.0}, {ClassId(8), PoolId(2), 0.5}};
  loop.reroute(weights, Instant(4));
  EXPECT_EQ(loop.counts().held, 1) << "of the other class a share is served";
  EXPECT_EQ(loop.counts().rejected, 2);
  const auto shed = std::ranges::count_if(journal.decisions, [](const auto& d) {
    return d.kind == journal::DecisionKind::Emergency && d.value == static_cast<std::int64_t>(journal::Rung::Shed);
  });
  EXPECT_EQ(shed, 2);
  loop.set_accepting(InstanceId(2), true, Instant(5));
  EXPECT_EQ(loop.counts().held, 0);
  EXPECT_EQ(loop.counts().in_flight, 1);
}

TEST(PoolRouter, SaysWhatOfAClassIsShed) {
  const std::vector<PoolWeight> weights{
      {ClassId(0), PoolId(0), 0.25}, {ClassId(0), PoolId(1), 0.5}, {ClassId(1), PoolId(1), 1.0}};
  EXPECT_DOUBLE_EQ(shed_share(weights, ClassId(0)), 0.25);
  EXPECT_DOUBLE_EQ(shed_share(weights, ClassId(1)), 0.0);
  EXPECT_DOUBLE_EQ(shed_share(weights, ClassId(2)), 0.0) << "nothing is said of it";
  EXPECT_TRUE(sheds_any(weights));
  EXPECT_FALSE(sheds_any(std::span(weights).subspan(2)));
}

TEST(FleetLoop, CountsWhatFinishedRequestsTurnOutToBe) {
  Fleet fleet;
  fleet.add(0);
  Journal journal;
  Driver driver;
  FleetLoop loop(fleet.views, {}, 1, nine_classes(kThree), driver, journal);
  Served long_answer;
  long_answer.output_tokens = 400;
  for (std::int64_t id = 1; id <= 3; ++id) loop.arrive(sized(id, 10, 10), 0, Instant(id));
  loop.leave(RequestId(1), Fate::Finished, "", long_answer, Instant(10));
  loop.leave(RequestId(2), Fate::Cancelled, "", long_answer, Instant(10));
  loop.leave(RequestId(3), Fate::Failed, "", long_answer, Instant(10));
  EXPECT_EQ(loop.turned_out().rows(), (std::vector<std::vector<std::int64_t>>{{0, 0, 1}}))
      << "nobody knows what the others would have become";
}

TEST(FleetLoop, CountsWhatFinishedRequestsMissed) {
  Fleet fleet;
  fleet.add(0);
  Journal journal;
  Driver driver;
  auto options = nine_classes(kThree);
  options.service.objectives.reset();
  options.slo.ttft = Span::ms(200);
  options.slo.e2e = Span::s(10);
  FleetLoop loop(fleet.views, {}, 1, options, driver, journal);
  const auto served = [&](std::int64_t id, Span ttft, Span e2e, Fate fate) {
    loop.arrive(sized(id, 10, 10), 0, Instant());
    Served how;
    how.first_token = Instant() + ttft;
    how.output_tokens = 5;
    loop.leave(RequestId(id), fate, "", how, Instant() + e2e);
  };
  served(1, Span::ms(200), Span::s(10), Fate::Finished);
  EXPECT_TRUE(loop.turned_out().late().empty());
  served(2, Span::ms(201), Span::s(1), Fate::Finished);
  served(3, Span::ms(100), Span::s(11), Fate::Finished);
  served(4, Span::ms(201), Span::s(1), Fate::Cancelled);
  EXPECT_EQ(loop.turned_out().late(), std::vector<std::int64_t>{2});
}

TEST(FleetLoop, AFullPoolOverflowsToTheNextLargerAndThenItsOwnTakesMore) {
  const Flat profile(0.5, 10.0);  // full beyond 5 requests in the last ten seconds
  Fleet fleet;
  for (const std::int32_t pool : {0, 1, 2}) fleet.add(pool, &profile);
  Journal journal;
  Driver driver;
  DispatchPolicies policies;
  policies.route_prefill = {std::make_shared<policy::LeastEnergy>(), Mode::Enforce};
  FleetLoop loop(fleet.views, std::move(policies), 1, nine_classes(kThree), driver, journal);
  for (std::int64_t id = 1; id <= 16; ++id) loop.arrive(sized(id, 10, 10), 0, Instant());
  const auto at = [&](std::int32_t i) { return loop.shown(InstanceId(i)).assigned_requests; };
  EXPECT_EQ(at(0), 6) << "where every pool has what it carries, nobody waits at the gateway";
  EXPECT_EQ(at(1), 5);
  EXPECT_EQ(at(2), 5);
  EXPECT_STREQ(journal.decisions.back().reason, "all pools are at capacity: its own");
  loop.arrive(sized(17, 5000, 400), 0, Instant());
  EXPECT_EQ(at(2), 6);
  EXPECT_EQ(loop.counts().held, 0);
  loop.arrive(sized(18, 10, 10), 0, Instant() + Span::s(100));  // the earlier requests no longer count
  EXPECT_STREQ(journal.decisions.back().reason, "its class's share");
}

TEST(FleetLoop, AFullPoolHoldsOnlyWhatMayGoNowhereElse) {
  for (const bool overflow : {false, true}) {
    Fleet fleet;
    for (const std::int32_t pool : {0, 0, 1, 2}) fleet.add(pool);
    Journal journal;
    Driver driver;
    DispatchPolicies policies;
    policies.admission = {std::make_shared<policy::BoundedAdmission>(policy::BoundedAdmissionOptions{2, 100}),
                          Mode::Enforce};
    FleetLoopOptions options = nine_classes(kThree);
    options.emergency.overflow = overflow;
    FleetLoop loop(fleet.views, std::move(policies), 1, options, driver, journal);
    std::int64_t id = 0;
    const auto held_after = [&](int count, std::int32_t prompt) {
      for (int i = 0; i < count; ++i) {
        ++id;
        loop.arrive(sized(id, prompt, 10), 0, Instant(id));
      }
      return loop.counts().held;
    };
    // Two instances of pool 0, and with overflow one each of the larger ones, take two requests each.
    EXPECT_EQ(held_after(9, 10), overflow ? 1 : 5);
    const auto before = loop.counts().held;
    EXPECT_EQ(held_after(1, 5000), before) << "its own pool is not full";
    for (const std::int64_t gone : {std::int64_t{1}, id})
      loop.leave(RequestId(gone), Fate::Finished, "", {}, Instant(100));
    EXPECT_EQ(loop.counts().held, before - 1);
    // Without an instance of its own, a class is held to the bound of the pool that takes it.
    loop.remove_instance(InstanceId(2), Instant(101));
    EXPECT_EQ(held_after(3, 500), before);
  }
}

TEST(FleetLoop, InAStrictQueueWhoWaitsForAFullPoolHoldsUpThoseBehind) {
  for (const bool strict : {false, true}) {
    Fleet fleet;
    for (const std::int32_t pool : {0, 1, 2}) fleet.add(pool);
    Journal journal;
    Driver driver;
    DispatchPolicies policies;
    policies.queueing = {std::make_shared<policy::Fcfs>(policy::FcfsOptions{strict}), Mode::Enforce};
    policy::WeightedRoundRobinOptions turns;
    turns.max_in_flight_per_gpu = 1;
    policies.route_prefill = {std::make_shared<policy::WeightedRoundRobin>(turns), Mode::Enforce};
    FleetLoopOptions options = nine_classes(kThree);
    options.emergency.overflow = false;
    FleetLoop loop(fleet.views, std::move(policies), 1, options, driver, journal);
    using Ids = std::vector<std::int64_t>;
    for (const std::int64_t id : {1, 2}) loop.arrive(sized(id, 10, 10), 0, Instant(id));
    loop.arrive(sized(3, 5000, 400), 0, Instant(3));
    EXPECT_EQ(driver.started, strict ? Ids({1}) : Ids({1, 3}));
    loop.leave(RequestId(1), Fate::Finished, "", {}, Instant(4));
    EXPECT_EQ(driver.started, strict ? Ids({1, 2, 3}) : Ids({1, 3, 2}));
    if (!strict) continue;
    loop.arrive(sized(4, 10, 10), 0, Instant(5));
    loop.arrive(sized(5, 500, 10), 0, Instant(6));
    EXPECT_EQ(loop.counts().held, 2);
    loop.order_by_policy(false, Instant(7));
    EXPECT_EQ(driver.started.back(), 5) << "switched off, a class has its own line";
  }
}

TEST(FleetLoop, AnInstanceWithoutRequestsTakesOneWhateverItsProfile) {
  const Flat profile(0.0, 10.0);
  Fleet fleet;
  fleet.add(0, &profile);
  Journal journal;
  Driver driver;
  DispatchPolicies policies;
  policies.route_prefill = {std::make_shared<policy::LeastEnergy>(), Mode::Enforce};
  FleetLoop loop(fleet.views, std::move(policies), 1, {}, driver, journal);
  for (std::int64_t id = 1; id <= 3; ++id) loop.arrive(request(id), 0, Instant());
  EXPECT_EQ(loop.counts().held, 0);
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(FleetLoop, LeastEnergyFillsTheCheaperInstanceToWhatItCarries) {
  const Flat cheap(1.0, 10.0);
  const Flat costly(1.0, 20.0);
  Fleet fleet;
  fleet.add(0, &costly);
  fleet.add(0, &cheap);
  Journal journal;
  Driver driver;
  DispatchPolicies policies;
  policies.route_prefill = {std::make_shared<policy::LeastEnergy>(), Mode::Enforce};
  FleetLoop loop(fleet.views, std::move(policies), 1, {}, driver, journal);
  for (std::int64_t id = 1; id <= 15; ++id) loop.arrive(request(id), 0, Instant());
  EXPECT_EQ(loop.shown(InstanceId(1)).assigned_requests, 10);
  EXPECT_EQ(loop.shown(InstanceId(0)).assigned_requests, 5);
  for (std::int64_t id = 16; id <= 21; ++id) loop.arrive(request(id), 0, Instant());
  EXPECT_EQ(loop.shown(InstanceId(0)).assigned_requests, 11) << "beyond what both carry, in turn";
  EXPECT_EQ(loop.shown(InstanceId(1)).assigned_requests, 10);
}

/// Capacity 0.5 a second at 800 MHz, 1 at higher clocks, where a request costs a hundred times as much energy.
class TwoClocks final : public LoadProfile {
 public:
  [[nodiscard]] double max_load_per_s(ClassId, MegaHertz clock) const override { return carried(clock); }
  [[nodiscard]] LoadPoint at(ClassId, double load_per_s, MegaHertz clock) const override {
    const double slope = clock > kLow ? 100.0 : 1.0;
    return {Watts(100.0 + slope * std::min(load_per_s, carried(clock))), Span(), Span()};
  }
  [[nodiscard]] MegaHertz clock_for(ClassId, double load_per_s, MegaHertz least) const override {
    return load_per_s > carried(least) ? MegaHertz(1980) : least;
  }

 private:
  static constexpr MegaHertz kLow{800};
  static double carried(MegaHertz clock) { return clock > kLow ? 1.0 : 0.5; }
};

TEST(FleetLoop, ARequestThatTakesAHigherClockIsNotFree) {
  const TwoClocks profile;
  Fleet fleet;
  for (int i = 0; i < 2; ++i) {
    fleet.add(0, &profile);
    fleet.views.back().clock_commanded = MegaHertz(800);
  }
  Journal journal;
  Driver driver;
  DispatchPolicies policies;
  policies.route_prefill = {std::make_shared<policy::LeastEnergy>(), Mode::Enforce};
  FleetLoop loop(fleet.views, std::move(policies), 1, {}, driver, journal);
  for (std::int64_t id = 1; id <= 10; ++id) loop.arrive(request(id), 0, Instant());
  EXPECT_EQ(loop.shown(InstanceId(0)).assigned_requests, 5) << "beyond what 800 MHz carries";
  EXPECT_EQ(loop.shown(InstanceId(1)).assigned_requests, 5);
}

/// Capacity 0.5 a second at 800 MHz, 1 at higher clocks, at almost no energy.
class SlowAndCheap final : public LoadProfile {
 public:
  [[nodiscard]] double max_load_per_s(ClassId, MegaHertz clock) const override {
    return clock > MegaHertz(800) ? 1.0 : 0.5;
  }
  [[nodiscard]] LoadPoint at(ClassId, double load_per_s, MegaHertz) const override {
    return {Watts(100.0 + load_per_s), Span(), Span()};
  }
};

TEST(FleetLoop, AnInstanceInTimeAtItsClockComesBeforeACheaperOneThatIsNot) {
  const SlowAndCheap slow;
  const Flat costly(1.0, 10.0);
  Fleet fleet;
  fleet.add(0, &slow);
  fleet.views.back().clock_commanded = MegaHertz(800);
  fleet.add(0, &costly);
  Journal journal;
  Driver driver;
  DispatchPolicies policies;
  policies.route_prefill = {std::make_shared<policy::LeastEnergy>(), Mode::Enforce};
  FleetLoop loop(fleet.views, std::move(policies), 1, {}, driver, journal);
  for (std::int64_t id = 1; id <= 12; ++id) loop.arrive(request(id), 0, Instant());
  EXPECT_EQ(loop.shown(InstanceId(0)).assigned_requests, 5);
  EXPECT_EQ(loop.shown(InstanceId(1)).assigned_requests, 7);
  for (std::int64_t id = 13; id <= 17; ++id) loop.arrive(request(id), 0, Instant());
  EXPECT_EQ(loop.shown(InstanceId(0)).assigned_requests, 7) << "nobody is in time: the cheaper one, at a higher clock";
}

TEST(FleetLoop, WhatIsGoneIsTouchedNoMore) {
  Journal journal;
  Driver driver;
  FleetLoop loop(fleet({Role::Colocated, Role::Colocated}), {}, 1, {}, driver, journal);
  loop.arrive(request(1), 0, Instant());
  loop.arrive(request(2), 0, Instant());
  loop.remove_instance(InstanceId(0), Instant());
  EXPECT_EQ(loop.instances().size(), 1U);
  EXPECT_EQ(loop.find(InstanceId(0)), nullptr);
  StepReport report;
  report.instance = InstanceId(0);
  report.shape.decode_requests = 7;
  loop.report(report, {});
  loop.lost(InstanceId(0));
  loop.changed(InstanceId(0));
  loop.set_accepting(InstanceId(0), true, Instant());
  loop.first_token(RequestId(1), Instant());
  loop.leave(RequestId(1), Fate::Failed, "the instance died", {}, Instant());
  EXPECT_EQ(loop.counts().failed, 1);
  InstanceView next;
  EXPECT_EQ(loop.add_instance(next, Instant()), InstanceId(2)) << "ids do not come back";
  EXPECT_EQ(loop.shown(InstanceId(0)).step.shape.decode_requests, 0);
}

TEST(FleetLoop, HeldRequestsThatLeaveTakeNobodysTurnAndNoRoom) {
  Journal journal;
  Driver driver;
  auto views = fleet({Role::Colocated});
  views[0].accepting = false;
  FleetLoop loop(std::move(views), {}, 1, {}, driver, journal);
  for (std::int64_t id = 1; id <= 1000; ++id) loop.arrive(request(id), 0, Instant());
  for (std::int64_t id = 1; id < 1000; ++id) {
    if (id != 500) loop.leave(RequestId(id), Fate::Cancelled, "", {}, Instant());
  }
  EXPECT_EQ(loop.counts().held, 2);
  loop.set_accepting(InstanceId(0), true, Instant());
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{500, 1000}));
}

TEST(FleetLoop, AModelWithoutAnInstanceHoldsUpNoOther) {
  Journal journal;
  Driver driver;
  FleetLoopOptions options;
  options.models = 3;
  FleetLoop loop({}, {}, 1, options, driver, journal);
  InstanceView closed;
  closed.accepting = false;
  loop.add_instance({}, Instant(), 1);
  const InstanceId second = loop.add_instance(closed, Instant(), 2);
  EXPECT_TRUE(loop.ready(0));
  EXPECT_FALSE(loop.ready(1));
  loop.arrive(request(1), 0, Instant(), 1);
  loop.arrive(request(2), 0, Instant(), 0);
  loop.arrive(request(3), 0, Instant(), 2);
  loop.arrive(request(4), 0, Instant(), 0);
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{2, 4}));
  loop.set_accepting(second, true, Instant());
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{2, 4, 1}));
  loop.add_instance({}, Instant(), kEveryModel);
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{2, 4, 1, 3}));
  Served served;
  served.prompt_tokens = 1000;
  const std::int64_t before = loop.tokens().prompt;
  loop.leave(RequestId(1), Fate::Finished, "", served, Instant());
  EXPECT_EQ(loop.tokens().prompt, before + 1000 - request(1).prompt_tokens) << "as its engine counted";
}

}  // namespace
}  // namespace wattle::control
