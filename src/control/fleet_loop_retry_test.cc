// Requests that lost their instance before the answer began, requests that wait for an instance, and recorded reasons.
#include <gtest/gtest.h>

#include "control/fleet_driver_test.h"
#include "policy/routing/round_robin.h"

namespace wattle::control::fleet_loop_retry_test {
namespace {

Instant at(std::int64_t ms) { return Instant() + Span::ms(ms); }

struct Retry {
  Retry(std::initializer_list<Role> roles, Span wait, DispatchPolicies policies = {}) {
    FleetLoopOptions options;
    options.unready_wait = wait;
    loop = std::make_unique<FleetLoop>(fleet(roles), std::move(policies), 1, options, driver, journal);
  }
  /// Its engine no longer has the request.
  void lose(std::int64_t id, std::int32_t from, std::int64_t ms) {
    driver.where.erase(RequestId(id));
    loop->bounced(RequestId(id), InstanceId(from), at(ms));
  }
  [[nodiscard]] std::int32_t assigned(std::size_t i) const { return loop->instances()[i].assigned_requests; }
  [[nodiscard]] InstanceId where(std::int64_t id) const {
    const auto found = driver.where.find(RequestId(id));
    return found == driver.where.end() ? kNoInstance : found->second.instance;
  }
  Driver driver;
  Journal journal;
  std::unique_ptr<FleetLoop> loop;
};

TEST(FleetLoopRetry, ALostRequestStartsAgainElsewhereAndIsCountedOnce) {
  Retry r({Role::Colocated, Role::Colocated}, Span());
  r.loop->arrive(request(0), 0, at(0));
  EXPECT_EQ(r.where(0), InstanceId(0));
  r.loop->arrive(request(1), 1, at(0));
  r.loop->arrive(request(2), 2, at(0));
  r.lose(0, 0, 5);
  EXPECT_EQ(r.where(0), InstanceId(1)) << "though the other has fewer";
  EXPECT_EQ(r.assigned(0), 1);
  EXPECT_EQ(r.assigned(1), 2);
  EXPECT_EQ(r.journal.count(journal::DecisionKind::Queueing), 1) << "it is written down";
  EXPECT_EQ(r.journal.decisions.back().instance, InstanceId(0));
  EXPECT_EQ(r.loop->counts().in_flight, 3);
  for (std::int64_t id = 0; id < 3; ++id) r.loop->leave(RequestId(id), Fate::Finished, "", {}, at(9));
  EXPECT_EQ(r.loop->counts().arrived, 3);
  EXPECT_EQ(r.loop->counts().finished, 3);
  EXPECT_EQ(r.assigned(0) + r.assigned(1), 0);
  r.loop->bounced(RequestId(0), InstanceId(1), at(10));  // a late report
  EXPECT_EQ(r.loop->counts().in_flight, 0);
}

TEST(FleetLoopRetry, WithNobodyElseTheSameOneMayTryAgain) {
  Retry r({Role::Colocated}, Span());
  r.loop->arrive(request(0), 0, at(0));
  r.lose(0, 0, 5);
  EXPECT_EQ(r.where(0), InstanceId(0));
  EXPECT_EQ(r.assigned(0), 1);
}

TEST(FleetLoopRetry, BothLegsAreGivenUpWhereverItWasLost) {
  for (const bool at_once : {false, true}) {
    Driver driver;
    Journal journal;
    FleetLoopOptions options;
    options.both_legs_at_once = at_once;
    FleetLoop loop(fleet({Role::Prefill, Role::Decode, Role::Decode}), {}, 1, options, driver, journal);
    loop.arrive(request(0), 0, at(0));
    if (!at_once) loop.prefill_done(RequestId(0), at(1));
    ASSERT_EQ(driver.where.at(RequestId(0)).instance, InstanceId(1));
    driver.where.erase(RequestId(0));
    loop.bounced(RequestId(0), InstanceId(1), at(2));
    if (!at_once) {
      EXPECT_EQ(driver.where.at(RequestId(0)).place, Driver::Place::Prefill) << "from its first leg";
      loop.prefill_done(RequestId(0), at(3));
    }
    EXPECT_EQ(driver.where.at(RequestId(0)).instance, InstanceId(2));
    EXPECT_EQ(loop.instances()[0].assigned_requests, at_once ? 1 : 0);
    EXPECT_EQ(loop.instances()[1].assigned_requests, 0);
    EXPECT_EQ(loop.instances()[2].assigned_requests, 1);
    loop.leave(RequestId(0), Fate::Finished, "", {}, at(4));
    for (const auto& view : loop.instances()) EXPECT_EQ(view.assigned_requests, 0);
  }
}

TEST(FleetLoopRetry, WhileNobodyAcceptsNewAndLostOnesWaitSoLongAndNoLonger) {
  Retry r({Role::Colocated, Role::Colocated}, Span::ms(100));
  r.loop->set_accepting(InstanceId(1), false, at(0));
  r.loop->arrive(request(0), 0, at(0));
  r.loop->set_accepting(InstanceId(0), false, at(10));
  r.lose(0, 0, 20);
  r.loop->arrive(request(1), 1, at(60));
  EXPECT_EQ(r.loop->counts().held, 2);
  r.loop->tick(at(119));
  EXPECT_EQ(r.loop->counts().held, 2);
  r.loop->tick(at(120));
  EXPECT_EQ(r.driver.where.at(RequestId(0)).place, Driver::Place::Refused);
  EXPECT_EQ(r.driver.reasons, std::vector<std::string>{"no instance is ready"});
  EXPECT_EQ(r.loop->counts().rejected, 1);
  r.loop->set_accepting(InstanceId(1), true, at(130));
  EXPECT_EQ(r.where(1), InstanceId(1));
  r.loop->tick(at(1000));
  EXPECT_EQ(r.loop->counts().rejected, 1) << "it is not held any more";
}

TEST(FleetLoopRetry, AFirstLegWaitsForSomebodyToDecode) {
  Retry r({Role::Prefill, Role::Decode}, Span::ms(100));
  r.loop->set_accepting(InstanceId(1), false, at(0));
  r.loop->arrive(request(0), 0, at(0));
  EXPECT_EQ(r.loop->counts().held, 1);
  r.loop->set_accepting(InstanceId(1), true, at(50));
  EXPECT_EQ(r.where(0), InstanceId(0));
}

TEST(FleetLoopRetry, WhatNobodyDecodesBeginsAgainWhenSomebodyDoes) {
  Retry r({Role::Prefill, Role::Decode}, Span::ms(100));
  r.loop->arrive(request(0), 0, at(0));
  ASSERT_EQ(r.where(0), InstanceId(0));
  r.loop->set_accepting(InstanceId(1), false, at(5));
  r.driver.where.erase(RequestId(0));
  r.loop->prefill_done(RequestId(0), at(10));
  EXPECT_EQ(r.loop->counts().held, 1);
  EXPECT_EQ(r.assigned(0), 0);
  r.loop->set_accepting(InstanceId(1), true, at(50));
  EXPECT_EQ(r.where(0), InstanceId(0));
  r.loop->prefill_done(RequestId(0), at(60));
  EXPECT_EQ(r.where(0), InstanceId(1));
  r.loop->leave(RequestId(0), Fate::Finished, "", {}, at(70));
  EXPECT_EQ(r.assigned(0) + r.assigned(1), 0);
}

TEST(FleetLoopRetry, TheDriverHearsWhyARequestGoesWhereItGoes) {
  Retry plain({Role::Prefill, Role::Decode}, Span());
  plain.loop->arrive(request(0), 0, at(0));
  EXPECT_EQ(plain.driver.why, "least assigned");
  DispatchPolicies policies;
  policies.route_prefill.policy = std::make_shared<policy::RoundRobin>();
  Retry routed({Role::Prefill, Role::Decode}, Span(), std::move(policies));
  routed.loop->arrive(request(0), 0, at(0));
  EXPECT_EQ(routed.driver.why, routed.journal.decisions.back().reason);
  EXPECT_NE(routed.driver.why, "least assigned");
  routed.loop->prefill_done(RequestId(0), at(1));
  EXPECT_EQ(routed.driver.why, "least assigned") << "of the second leg";
}

}  // namespace
}  // namespace wattle::control::fleet_loop_retry_test
