// Requests that continue on a decode instance: what is counted where, and which instances are notified.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <variant>

#include "control/fleet_driver_test.h"
#include "control/fleet_loop.h"

namespace wattle::control {
namespace {

class FleetLoopHandOver : public FleetLoopTest {};

TEST_F(FleetLoopHandOver, BothLegsAtOnceAreCountedAtBothUntilPrefillEnds) {
  FleetLoopOptions options;
  options.both_legs_at_once = true;
  FleetLoop loop(fleet({Role::Prefill, Role::Decode}), {}, 1, options, driver, journal);
  const auto assigned = [&](std::size_t i) { return loop.instances()[i].assigned_requests; };
  loop.arrive(request(0), 0, Instant{});
  EXPECT_EQ(driver.where.at(RequestId{0}).instance, InstanceId{1});
  EXPECT_EQ(assigned(0), 1);
  EXPECT_EQ(assigned(1), 1);
  loop.prefill_done(RequestId{0}, Instant{});
  loop.prefill_done(RequestId{0}, Instant{});  // reported twice
  EXPECT_EQ(assigned(0), 0);
  EXPECT_EQ(assigned(1), 1);
  loop.leave(RequestId{0}, Fate::Finished, "", {}, Instant{});
  EXPECT_EQ(assigned(1), 0);
  // A request that ends while it is bound to both instances frees both.
  loop.arrive(request(1), 0, Instant{});
  loop.leave(RequestId{1}, Fate::Finished, "", {}, Instant{});
  EXPECT_EQ(assigned(0), 0);
  EXPECT_EQ(assigned(1), 0);
  // Without a decode instance no prompt is computed.
  loop.set_accepting(InstanceId{1}, false, Instant{});
  loop.arrive(request(2), 0, Instant{});
  EXPECT_FALSE(driver.where.contains(RequestId{2}));
  EXPECT_EQ(assigned(0), 0);
  EXPECT_EQ(loop.counts().held, 1);
  loop.set_accepting(InstanceId{1}, true, Instant{});
  EXPECT_EQ(driver.where.at(RequestId{2}).instance, InstanceId{1});
}

TEST_F(FleetLoopHandOver, DecodeIsBoundWhenPrefillEndsAndReportedTwiceOnlyOnce) {
  auto loop = make(fleet({Role::Prefill, Role::Decode, Role::Decode}), {});
  loop.arrive(request(0), 0, Instant{});
  EXPECT_EQ(loop.instances()[0].assigned_requests, 1);
  loop.prefill_done(RequestId{0}, Instant{});
  loop.prefill_done(RequestId{0}, Instant{});
  EXPECT_EQ(loop.instances()[0].assigned_requests, 0);
  EXPECT_EQ(loop.instances()[1].assigned_requests, 1);
  EXPECT_EQ(loop.instances()[1].assigned_prompt_tokens, 100);
  loop.leave(RequestId{0}, Fate::Finished, "", {}, Instant{});
  EXPECT_EQ(loop.instances()[1].assigned_requests, 0);
  EXPECT_EQ(loop.counts().left(), 1);
  loop.leave(RequestId{0}, Fate::Finished, "", {}, Instant{});
  EXPECT_EQ(loop.counts().left(), 1);
}

TEST_F(FleetLoopHandOver, TheFirstTokenAfterAHandOverSaysOnceWhatItWaited) {
  for (const bool at_once : {false, true}) {
    FleetLoopOptions options;
    options.both_legs_at_once = at_once;
    FleetLoop loop(fleet({Role::Prefill, Role::Decode}), {}, 1, options, driver, journal);
    const RequestId id(at_once ? 1 : 0);
    Request arrives = request(id.value());
    arrives.arrival = Instant{10};
    loop.arrive(arrives, 0, Instant{20});
    loop.prefill_done(id, Instant{50});
    loop.first_token(id, Instant{80});
    loop.first_token(id, Instant{90});
    ASSERT_EQ(driver.handed.size(), 1U) << at_once;
    EXPECT_EQ(driver.handed[0].prefill, InstanceId{0});
    EXPECT_EQ(driver.handed[0].decode, InstanceId{1});
    EXPECT_EQ(driver.handed[0].age, Span::ns(40));
    EXPECT_EQ(driver.handed[0].wait, Span::ns(30));
    loop.leave(id, Fate::Finished, "", {}, Instant{100});
    driver.handed.clear();
  }
  // The token of the prefill engine is not a hand-over, nor is one of a colocated engine.
  auto loop = make(fleet({Role::Prefill, Role::Decode, Role::Colocated}), {});
  for (const std::int64_t id : {2, 3}) {
    loop.arrive(request(id), 0, Instant{});
    loop.first_token(RequestId{id}, Instant{30});
  }
  EXPECT_TRUE(driver.handed.empty());
}

TEST_F(FleetLoopHandOver, PromptsAreUnansweredUntilTheFirstTokenWhereverTheyAreBound) {
  for (const bool at_once : {false, true}) {
    const std::int64_t from = at_once ? 10 : 0;  // ids are never reused
    FleetLoopOptions options;
    options.both_legs_at_once = at_once;
    FleetLoop loop(fleet({Role::Prefill, Role::Decode}), {}, 1, options, driver, journal);
    const auto unanswered = [&](std::size_t i) { return loop.instances()[i].unanswered_prompt_tokens; };
    const std::int64_t tokens = request(from).prompt_tokens;
    ASSERT_GT(tokens, 0);
    loop.arrive(request(from), 0, Instant{});
    EXPECT_EQ(unanswered(0), tokens);
    EXPECT_EQ(unanswered(1), at_once ? tokens : 0);
    loop.prefill_done(RequestId{from}, Instant{});
    EXPECT_EQ(unanswered(0), 0);
    EXPECT_EQ(unanswered(1), tokens);
    loop.first_token(RequestId{from}, Instant{});
    loop.first_token(RequestId{from}, Instant{});
    EXPECT_EQ(unanswered(1), 0);
    loop.arrive(request(from + 1), 0, Instant{});
    loop.first_token(RequestId{from + 1}, Instant{});  // the prefill engine's token
    EXPECT_EQ(unanswered(0) + unanswered(1), 0);
    loop.prefill_done(RequestId{from + 1}, Instant{});
    loop.arrive(request(from + 2), 0, Instant{});
    for (const std::int64_t id : {from, from + 1, from + 2})
      loop.leave(RequestId{id}, Fate::Cancelled, "", {}, Instant{});
    EXPECT_EQ(unanswered(0) + unanswered(1), 0);
  }
}

TEST_F(FleetLoopHandOver, RoutersHearOfHandOvers) {
  class Hears final : public policy::RoutingPolicy {
   public:
    [[nodiscard]] EventKinds observes() const override { return EventKinds::of<event::HandedOver>(); }
    void observe(const Event& event, Instant) override {
      const auto& handed = std::get<event::HandedOver>(event);
      EXPECT_EQ(handed.request.id, RequestId{0});
      EXPECT_EQ(handed.instance.id, InstanceId{1});
      EXPECT_EQ(handed.age, Span::ns(40));
      EXPECT_EQ(handed.wait, Span::ns(30));
      ++times;
    }
    RouteDecision route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                        RandomStream&) override {
      return {candidates.front()->id, ""};
    }
    int times = 0;
  };
  auto hears = std::make_shared<Hears>();
  control::DispatchPolicies policies;
  policies.route_decode.policy = hears;
  FleetLoop loop(fleet({Role::Prefill, Role::Decode}), std::move(policies), 1, {}, driver, journal);
  Request arrives = request(0);
  arrives.arrival = Instant{10};
  loop.arrive(arrives, 0, Instant{20});
  loop.prefill_done(RequestId{0}, Instant{50});
  loop.first_token(RequestId{0}, Instant{80});
  EXPECT_EQ(hears->times, 1);
}

}  // namespace
}  // namespace wattle::control
