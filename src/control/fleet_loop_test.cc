#include "control/fleet_loop.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/fleet_driver_test.h"
#include "policy/admission/always.h"
#include "policy/admission/bounded.h"
#include "policy/queueing/fcfs.h"
#include "policy/routing/least_loaded.h"
#include "policy/routing/power_of_two.h"
#include "policy/routing/round_robin.h"
#include "policy/routing/weighted_round_robin.h"

namespace wattle::control {
namespace {

DispatchPolicies bounded(std::int64_t in_flight, std::int64_t held, Mode mode = Mode::Enforce) {
  DispatchPolicies p;
  p.admission = {std::make_unique<policy::BoundedAdmission>(policy::BoundedAdmissionOptions{in_flight, held}), mode};
  return p;
}

/// Shortest prompt first; shows that the order is the policy's.
class ShortestFirst final : public policy::QueuePolicy {
 public:
  std::int64_t key(const Request& r, Instant) override { return r.prompt_tokens; }
};

/// Routing by a function of the test.
class Scripted final : public policy::RoutingPolicy {
 public:
  explicit Scripted(InstanceId answer) : answer_(answer) {}
  RouteDecision route(const Request&, std::span<const InstanceView* const>, Instant, RandomStream&) override {
    return {answer_, "scripted"};
  }

 private:
  InstanceId answer_;
};

TEST_F(FleetLoopTest, HeldRequestsLeaveInThePolicysOrderAndTiesInArrivalOrder) {
  auto policies = bounded(1, 10);
  policies.queueing = {std::make_unique<ShortestFirst>(), Mode::Enforce};
  auto loop = make(fleet({Role::Colocated}), std::move(policies));
  loop.arrive(request(0, 50), 0, Instant{});
  for (const auto& [id, prompt] : {std::pair(1, 300), {2, 100}, {3, 200}, {4, 100}}) {
    loop.arrive(request(id, prompt), 0, Instant{});
  }
  EXPECT_EQ(loop.counts().held, 4);
  for (int i = 0; i < 4; ++i) loop.leave(RequestId{driver.started.back()}, Fate::Finished, "", {}, Instant{});
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{0, 2, 4, 3, 1}));
}

TEST_F(FleetLoopTest, JournalsEveryLengthTheConstantAnswers) {
  DispatchPolicies policies;
  policies.length = std::make_shared<predict::LengthBelief>();
  auto loop = make(fleet({Role::Colocated}), std::move(policies));
  // The hint is right at first; later it is 900 for answers of 100 tokens.
  const auto serve = [&](std::int64_t id, std::int32_t hint) {
    Request r = request(id);
    r.max_tokens = 1'000;
    r.predicted_output_tokens = hint;
    loop.arrive(r, 0, Instant(id));
    Served served;
    served.output_tokens = 100;
    loop.leave(r.id, Fate::Finished, "", served, Instant(id));
  };
  serve(0, 100);
  EXPECT_EQ(journal.count(journal::DecisionKind::Length), 0);
  for (std::int64_t id = 1; id < 1'000; ++id) serve(id, 900);
  const auto counted = loop.length()->counts().fallen_back;
  EXPECT_GT(counted, 0);
  EXPECT_EQ(journal.count(journal::DecisionKind::Length), counted);
  const auto& last = journal.decisions.back();
  EXPECT_EQ(last.kind, journal::DecisionKind::Length);
  EXPECT_EQ(last.request, RequestId{999});
  EXPECT_NEAR(static_cast<double>(last.value), 100.0, 2.0) << "the sketch rounds";
  EXPECT_STREQ(last.reason, "no better than the constant, which answers");
}

TEST_F(FleetLoopTest, ShadowedQueueingJournalsKeysAndKeepsArrivalOrder) {
  auto policies = bounded(1, 10);
  policies.queueing = {std::make_unique<ShortestFirst>(), Mode::Shadow};
  auto loop = make(fleet({Role::Colocated}), std::move(policies));
  for (const auto& [id, prompt] : {std::pair(0, 50), {1, 300}, {2, 100}}) loop.arrive(request(id, prompt), 0, {});
  loop.leave(RequestId{0}, Fate::Finished, "", {}, Instant{});
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{0, 1}));
  ASSERT_EQ(journal.count(journal::DecisionKind::Queueing), 2) << "the one that was not held has no key";
  const auto record =
      std::ranges::find(journal.decisions, journal::DecisionKind::Queueing, &journal::DecisionRecord::kind);
  EXPECT_EQ(record->value, 300);
  EXPECT_EQ(record->mode, Mode::Shadow);
}

TEST_F(FleetLoopTest, ShadowedAdmissionJournalsButAdmits) {
  auto loop = make(fleet({Role::Colocated}), bounded(1, 0, Mode::Shadow));
  for (int i = 0; i < 3; ++i) loop.arrive(request(i), 0, Instant{});
  EXPECT_EQ(loop.counts().dispatched(), 3);
  ASSERT_EQ(journal.count(journal::DecisionKind::Admission), 3);
  EXPECT_EQ(journal.decisions.back().value, static_cast<std::int64_t>(Admission::Reject));
  EXPECT_EQ(journal.decisions.back().mode, Mode::Shadow);
}

TEST_F(FleetLoopTest, OffNeitherAsksNorJournals) {
  auto policies = bounded(1, 0, Mode::Off);
  policies.queueing = {std::make_unique<ShortestFirst>(), Mode::Off};
  policies.route_prefill = {std::make_unique<Scripted>(InstanceId{0}), Mode::Off};
  auto loop = make(fleet({Role::Colocated, Role::Colocated}), std::move(policies));
  for (int i = 0; i < 4; ++i) loop.arrive(request(i), 0, Instant{});
  EXPECT_TRUE(journal.decisions.empty());
  EXPECT_EQ(loop.instances()[0].assigned_requests, 2) << "falls back to the least assigned";
  EXPECT_EQ(loop.instances()[1].assigned_requests, 2);
}

TEST_F(FleetLoopTest, ShadowedRoutingJournalsItsChoiceAndRoutesByLeastAssigned) {
  DispatchPolicies policies;
  policies.route_prefill = {std::make_unique<Scripted>(InstanceId{1}), Mode::Shadow};
  auto loop = make(fleet({Role::Colocated, Role::Colocated}), std::move(policies));
  loop.arrive(request(0), 0, Instant{});
  EXPECT_EQ(driver.where.at(RequestId{0}).instance, InstanceId{0});
  ASSERT_EQ(journal.decisions.size(), 1U);
  EXPECT_EQ(journal.decisions[0].value, 1);
}

TEST(FleetLoopStreams, ShadowingOneRoutingDoesNotShiftTheOthersDraws) {
  const auto starts = [](bool shadow) {
    Driver driver;
    Journal journal;
    DispatchPolicies policies;
    policies.route_prefill = {std::make_unique<policy::PowerOfTwo>(), Mode::Enforce};
    if (shadow) policies.route_decode = {std::make_unique<policy::PowerOfTwo>(), Mode::Shadow};
    FleetLoop loop(fleet({Role::Prefill, Role::Prefill, Role::Prefill, Role::Decode, Role::Decode}),
                   std::move(policies), 1, {}, driver, journal);
    std::vector<std::int32_t> chosen;
    for (int i = 0; i < 50; ++i) {
      loop.arrive(request(i), 0, Instant{});
      chosen.push_back(driver.where.at(RequestId{i}).instance.value());
      loop.prefill_done(RequestId{i}, Instant{});
    }
    return chosen;
  };
  EXPECT_EQ(starts(false), starts(true));
}

TEST_F(FleetLoopTest, ARefusalAtHandOverFreesItsPlace) {
  FleetLoopOptions options;
  options.unready_wait = Span();
  FleetLoop loop(fleet({Role::Prefill, Role::Decode}), bounded(1, 10), 1, options, driver, journal);
  loop.arrive(request(0), 0, Instant{});
  loop.arrive(request(1), 0, Instant{});
  loop.set_accepting(InstanceId{1}, false, Instant{});
  loop.prefill_done(RequestId{0}, Instant{});
  EXPECT_EQ(driver.reasons, (std::vector<std::string>{"no decode instance accepts requests"}));
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{0})) << "nobody is to wait, and nobody decodes";
}

TEST_F(FleetLoopTest, WhatNobodyCouldDecodeIsHeldAndBeginsAgain) {
  auto loop = make(fleet({Role::Prefill, Role::Decode}), bounded(1, 10));
  loop.arrive(request(0), 0, Instant{});
  loop.arrive(request(1), 0, Instant{});
  loop.set_accepting(InstanceId{1}, false, Instant{});
  loop.prefill_done(RequestId{0}, Instant{});
  EXPECT_TRUE(driver.reasons.empty());
  EXPECT_EQ(loop.counts().held, 2);
  loop.set_accepting(InstanceId{1}, true, Instant{});
  EXPECT_EQ(driver.started.size(), 2U) << "one at a time";
  loop.prefill_done(RequestId{driver.started.back()}, Instant{});
  EXPECT_EQ(loop.counts().dispatched(), 1);
}

TEST_F(FleetLoopTest, TheRequestAskedAboutDoesNotCountAmongTheHeld) {
  auto loop = make(fleet({Role::Colocated}), bounded(1, 2));
  for (int i = 0; i < 4; ++i) loop.arrive(request(i), 0, Instant{});
  EXPECT_EQ(loop.counts().held, 2);
  EXPECT_EQ(driver.reasons, (std::vector<std::string>{"queue full"}));
  EXPECT_EQ(journal.count(journal::DecisionKind::Admission), 4) << "each arrival is asked about once";
  loop.set_accepting(InstanceId{0}, true, Instant{});  // retries for a full queue
  EXPECT_EQ(loop.counts().held, 2);
  EXPECT_EQ(loop.counts().rejected, 1);
}

TEST_F(FleetLoopTest, RoutingThatDeclinesKeepsTheRequestHeld) {
  DispatchPolicies policies;
  policies.route_prefill = {std::make_unique<Scripted>(kNoInstance), Mode::Enforce};
  auto loop = make(fleet({Role::Colocated}), std::move(policies));
  loop.arrive(request(0), 0, Instant{});
  loop.arrive(request(1), 0, Instant{});
  loop.set_accepting(InstanceId{0}, true, Instant{});
  EXPECT_EQ(loop.counts().held, 2);
  EXPECT_TRUE(driver.started.empty());
  EXPECT_TRUE(loop.leave(RequestId{0}, Fate::Cancelled, "", {}, Instant{}));
  EXPECT_FALSE(loop.leave(RequestId{0}, Fate::Cancelled, "", {}, Instant{}));
  EXPECT_EQ(loop.counts().left(), 1);
}

/// Never admits request 0; admits all others.
class NotTheFirst final : public policy::AdmissionPolicy {
 public:
  AdmissionDecision admit(const Request& r, const FleetSnapshot&) override {
    return {r.id == RequestId{0} ? Admission::Hold : Admission::Admit, ""};
  }
};

TEST_F(FleetLoopTest, CancellingTheOneThatBlocksReleasesThoseBehindIt) {
  DispatchPolicies policies;
  policies.admission = {std::make_unique<NotTheFirst>(), Mode::Enforce};
  auto loop = make(fleet({Role::Colocated}), std::move(policies));
  for (int i = 0; i < 3; ++i) loop.arrive(request(i), 0, Instant{});
  EXPECT_EQ(loop.counts().held, 3) << "nobody overtakes";
  EXPECT_TRUE(loop.leave(RequestId{0}, Fate::Cancelled, "", {}, Instant{}));
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{1, 2}));
}

TEST_F(FleetLoopTest, APortMayReportFailureFromWithinItsOwnCall) {
  auto loop = make(fleet({Role::Prefill, Role::Decode}), bounded(1, 100));
  loop.arrive(request(0), 0, Instant{});
  for (int i = 1; i < 50; ++i) loop.arrive(request(i), 0, Instant{});
  driver.on_start = [&](const Request& r) {
    if (r.id.value() % 2 == 1) {
      loop.leave(r.id, Fate::Finished, "", {}, Instant{});
      return;
    }
    loop.prefill_done(r.id, Instant{});
  };
  driver.on_hand_over = [&](const Request& r) { loop.leave(r.id, Fate::Finished, "", {}, Instant{}); };
  loop.leave(RequestId{0}, Fate::Finished, "", {}, Instant{});
  EXPECT_EQ(driver.started.size(), 50U);
  EXPECT_TRUE(std::ranges::is_sorted(driver.started));
  EXPECT_EQ(loop.counts().left(), 50);
  EXPECT_EQ(loop.counts().dispatched(), 0);
  for (const auto& view : loop.instances()) EXPECT_EQ(view.assigned_requests, 0);
}

TEST_F(FleetLoopTest, RefusesWhatArrivesWhileNobodyIsReadyOrTooManyAreInside) {
  FleetLoopOptions options;
  options.unready_wait = Span();
  options.max_requests = 1;
  FleetLoop loop(fleet({Role::Prefill, Role::Decode}), {}, 1, options, driver, journal);
  loop.set_accepting(InstanceId{1}, false, Instant{});
  EXPECT_FALSE(loop.ready()) << "nobody decodes";
  loop.arrive(request(0), 0, Instant{});
  loop.set_accepting(InstanceId{1}, true, Instant{});
  EXPECT_TRUE(loop.ready());
  loop.arrive(request(1), 0, Instant{});
  loop.arrive(request(2), 0, Instant{});
  EXPECT_EQ(driver.reasons, (std::vector<std::string>{"no instance is ready", "the gateway's queue is full"}));
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{1}));
}

TEST_F(FleetLoopTest, RestartsHeldRequestsWhenAnInstanceAcceptsAgain) {
  auto loop = make(fleet({Role::Colocated}), {});
  loop.set_accepting(InstanceId{0}, false, Instant{});
  loop.arrive(request(0), 0, Instant{});
  EXPECT_EQ(loop.counts().held, 1);
  loop.set_accepting(InstanceId{0}, true, Instant{});
  EXPECT_EQ(driver.started, (std::vector<std::int64_t>{0}));
}

TEST(FleetLoopDeathTest, BrokenPoliciesAndDriversAreCaughtAtOnce) {
  Driver driver;
  Journal journal;
  DispatchPolicies policies;
  policies.route_prefill = {std::make_unique<Scripted>(InstanceId{1}), Mode::Enforce};
  FleetLoop strays(fleet({Role::Prefill, Role::Decode}), std::move(policies), 1, {}, driver, journal);
  EXPECT_DEATH(strays.arrive(request(0), 0, Instant{}), "picks one of its candidates");
  FleetLoop repeats(fleet({Role::Colocated}), {}, 1, {}, driver, journal);
  repeats.arrive(request(0), 0, Instant{});
  EXPECT_DEATH(repeats.arrive(request(0), 0, Instant{}), "request ids are unique");
  EXPECT_DEATH(repeats.set_accepting(InstanceId{5}, true, Instant{}), "a known instance");
}

/// The loop's counters, recomputed from the calls to the driver.
void check_books(const FleetLoop& loop, const Driver& driver, const std::set<std::int64_t>& gone) {
  const auto& counts = loop.counts();
  RC_ASSERT(counts.arrived == counts.in_flight + counts.left());
  std::map<InstanceId, std::int32_t> assigned;
  std::int64_t in_flight = 0;
  std::int64_t refused = 0;
  for (const auto& [id, at] : driver.where) {
    if (at.place == Driver::Place::Refused) {
      ++refused;
    } else if (!gone.contains(id.value())) {
      ++assigned[at.instance];
      ++in_flight;
    }
  }
  RC_ASSERT(counts.dispatched() == in_flight);
  RC_ASSERT(counts.rejected == refused);
  RC_ASSERT(counts.finished + counts.cancelled == static_cast<std::int64_t>(gone.size()));
  for (const auto& view : loop.instances()) {
    RC_ASSERT(view.assigned_requests == assigned[view.id]);
    RC_ASSERT(view.assigned_prompt_tokens == 100 * assigned[view.id]);
  }
}

Mode any_mode(RandomStream& random) {
  constexpr Mode kModes[] = {Mode::Enforce, Mode::Enforce, Mode::Shadow, Mode::Off};
  return kModes[random.below(4)];
}

std::unique_ptr<policy::RoutingPolicy> any_routing(RandomStream& random) {
  switch (random.below(5)) {
    case 0:
      return std::make_unique<policy::RoundRobin>();
    case 1:
      return std::make_unique<policy::LeastLoaded>();
    case 2:
      return std::make_unique<policy::PowerOfTwo>();
    case 3:
      return std::make_unique<policy::WeightedRoundRobin>();
    default:
      return nullptr;
  }
}

RC_GTEST_PROP(FleetLoopProperty, BooksBalanceWhateverHappensInWhateverOrder, (std::uint64_t seed)) {
  RandomStream random(seed, "loop events");
  const bool split = random.below(2) == 0;
  auto views = split ? fleet({Role::Prefill, Role::Prefill, Role::Decode, Role::Decode, Role::Decode})
                     : fleet({Role::Colocated, Role::Colocated, Role::Colocated});
  DispatchPolicies policies;
  if (random.below(3) > 0) {
    policies = bounded(static_cast<std::int64_t>(1 + random.below(4)), static_cast<std::int64_t>(random.below(6)),
                       any_mode(random));
  }
  if (random.below(2) == 0) policies.queueing = {std::make_unique<policy::Fcfs>(), any_mode(random)};
  policies.route_prefill = {any_routing(random), any_mode(random)};
  policies.route_decode = {any_routing(random), any_mode(random)};
  Driver driver;
  Journal journal;
  std::size_t instances = views.size();
  FleetLoop loop(std::move(views), std::move(policies), seed, {}, driver, journal);

  std::set<std::int64_t> gone;
  std::int64_t arrived = 0;
  // Any id, including unknown and ended ones.
  const auto any_id = [&] {
    return RequestId{static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(arrived) + 2))};
  };
  for (int event = 0; event < 300; ++event) {
    const Instant now(event);
    const auto kind = random.below(100);
    if (kind < 40) {
      loop.arrive(request(arrived++), 0, now);
    } else if (kind < 60) {
      loop.prefill_done(any_id(), now);
    } else if (kind < 90) {
      const RequestId id = any_id();
      const auto at = driver.where.find(id);
      const bool refused = at != driver.where.end() && at->second.place == Driver::Place::Refused;
      const bool inside = id.value() < arrived && !refused && !gone.contains(id.value());
      const bool dispatched = at != driver.where.end();
      if (inside) gone.insert(id.value());  // before the call, which may start a held request
      const bool known = loop.leave(id, dispatched ? Fate::Finished : Fate::Cancelled, "", {}, now).has_value();
      RC_ASSERT(known == inside);
    } else if (kind < 91 && instances < 12) {
      InstanceView view;
      view.spec = spec_of(split ? (random.below(2) == 0 ? Role::Prefill : Role::Decode) : Role::Colocated);
      RC_ASSERT(loop.add_instance(view, now) == InstanceId{static_cast<std::int32_t>(instances)});
      ++instances;
    } else {
      loop.set_accepting(InstanceId{static_cast<std::int32_t>(random.below(instances))}, random.below(3) > 0, now);
    }
    check_books(loop, driver, gone);
    RC_ASSERT(loop.counts().arrived == arrived);
  }

  // All instances accept again and every request finishes.
  for (std::size_t i = 0; i < instances; ++i) {
    loop.set_accepting(InstanceId{static_cast<std::int32_t>(i)}, true, Instant{1'000});
  }
  while (loop.counts().dispatched() > 0) {
    for (std::int64_t id = 0; id < arrived; ++id) {
      const auto at = driver.where.find(RequestId{id});
      if (at == driver.where.end() || at->second.place == Driver::Place::Refused || gone.contains(id)) continue;
      gone.insert(id);
      loop.leave(RequestId{id}, Fate::Finished, "", {}, Instant{1'000});
    }
  }
  check_books(loop, driver, gone);
  RC_ASSERT(loop.counts().held == 0);
  RC_ASSERT(std::ranges::is_sorted(driver.started));  // in order of arrival
}

}  // namespace
}  // namespace wattle::control
