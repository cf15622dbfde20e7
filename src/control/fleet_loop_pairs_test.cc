// P/D pairs together with other instances: prompts computed by a pair's prefill instance are decoded by its decode
// instance.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "control/fleet_driver_test.h"
#include "control/fleet_loop.h"

namespace wattle::control {
namespace {

constexpr InstanceId kDecode{1}, kPrefill{2}, kOtherDecode{3}, kFarDecode{4};

/// A colocated instance, a pair, the decode instance of another pair, and an instance at another site.
class FleetLoopPairs : public FleetLoopTest {
 protected:
  FleetLoopPairs() {
    prefill_.role = Role::Prefill;
    prefill_.decode = kDecode;
    decode_.role = far_.role = Role::Decode;
    far_.site = SiteId(1);
  }
  FleetLoop loop() {
    auto views = fleet({Role::Colocated, Role::Decode, Role::Prefill, Role::Decode, Role::Decode});
    views[1].spec = views[3].spec = &decode_;
    views[2].spec = &prefill_;
    views[4].spec = &far_;
    return make(std::move(views), {});
  }
  /// A second request at the pair's prefill instance.
  RequestId computed(FleetLoop& at) {
    for (;;) {
      const RequestId id(next_++);
      at.arrive(request(id.value()), 0, Instant{});
      if (driver.where.at(id).instance == kPrefill) return id;
    }
  }
  InstanceSpec prefill_, decode_, far_;
  std::int64_t next_ = 0;
};

TEST_F(FleetLoopPairs, ARequestDecodesInItsPairHoweverBusyThatIs) {
  auto at = loop();
  for (int i = 0; i < 5; ++i) {
    const RequestId id = computed(at);
    at.prefill_done(id, Instant{});
    EXPECT_EQ(driver.where.at(id).instance, kDecode);
  }
  EXPECT_EQ(at.shown(kDecode).assigned_requests, 5);
  EXPECT_EQ(at.shown(kOtherDecode).assigned_requests, 0);
}

TEST_F(FleetLoopPairs, APairGetsRequestsWhileBothOfItAccept) {
  auto at = loop();
  const auto goes = [&] {
    std::vector<InstanceId> to;
    for (int i = 0; i < 4; ++i) {
      const RequestId id(next_++);
      at.arrive(request(id.value()), 0, Instant{});
      to.push_back(driver.where.at(id).instance);
    }
    return std::ranges::find(to, kPrefill) != to.end();
  };
  EXPECT_TRUE(goes());
  at.set_accepting(kDecode, false, Instant{});
  EXPECT_FALSE(goes());
  at.set_accepting(kDecode, true, Instant{});
  EXPECT_TRUE(goes());
  at.set_accepting(kPrefill, false, Instant{});
  EXPECT_FALSE(goes());
}

TEST_F(FleetLoopPairs, WhatIsComputedWhenItsDecodeInstanceGoesIsForAnotherOfItsSite) {
  auto at = loop();
  const RequestId first = computed(at), second = computed(at);
  at.remove_instance(kDecode, Instant{});
  at.prefill_done(first, Instant{});
  EXPECT_EQ(driver.where.at(first).instance, kOtherDecode);
  at.remove_instance(kOtherDecode, Instant{});
  at.prefill_done(second, Instant{});
  EXPECT_EQ(driver.where.at(second).place, Driver::Place::Refused) << "a KV cache does not cross sites";
  EXPECT_EQ(at.shown(kPrefill).assigned_requests, 0);
  EXPECT_EQ(at.shown(kFarDecode).assigned_requests, 0);
}

TEST_F(FleetLoopPairs, AnotherPoolsDecodeInstanceIsNotForIt) {
  decode_.pool = PoolId(0);
  auto at = loop();
  InstanceSpec elsewhere = decode_;
  elsewhere.pool = PoolId(1);
  InstanceView view;
  view.spec = &elsewhere;
  const InstanceId other = at.add_instance(view, Instant{});
  const RequestId id = computed(at);
  at.remove_instance(kDecode, Instant{});
  at.remove_instance(kOtherDecode, Instant{});
  at.prefill_done(id, Instant{});
  EXPECT_EQ(driver.where.at(id).place, Driver::Place::Refused);
  EXPECT_EQ(at.shown(other).assigned_requests, 0);
}

TEST_F(FleetLoopPairs, WhatOneInstanceComputesGoesToNoPairAndIsInNobodysWay) {
  auto at = loop();
  const auto where = [&](bool undivided) {
    Request one = request(next_++);
    one.undivided = undivided;
    at.arrive(one, 0, Instant{});
    return driver.where.at(one.id);
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(where(true).instance, InstanceId(0));
  at.set_accepting(InstanceId(0), false, Instant{});
  const Request held = [&] {
    Request one = request(next_++);
    one.undivided = true;
    at.arrive(one, 0, Instant{});
    return one;
  }();
  EXPECT_EQ(driver.where.count(held.id), 0U) << "it waits for a colocated instance";
  EXPECT_EQ(where(false).instance, kPrefill) << "and others do not wait for it";
  EXPECT_EQ(at.counts().held, 1);
  at.set_accepting(InstanceId(0), true, Instant{});
  EXPECT_EQ(driver.where.at(held.id).instance, InstanceId(0));
}

}  // namespace
}  // namespace wattle::control
