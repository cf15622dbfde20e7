// Requests that are restricted to some sites, and held requests whose order changes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>

#include "control/fleet_driver_test.h"
#include "policy/admission/bounded.h"
#include "policy/queueing/laxity.h"

namespace wattle::control::fleet_loop_residency_test {
namespace {

Residency at(std::initializer_list<int> sites) {
  Residency residency;
  for (const int site : sites) residency.allow(SiteId(site));
  return residency;
}

const InstanceSpec* spec_at(std::int32_t site, std::int32_t pool) {
  static const auto specs = [] {
    std::array<std::array<InstanceSpec, 3>, 3> made;
    for (std::int32_t s = 0; s < 3; ++s) {
      for (std::int32_t p = 0; p < 3; ++p) {
        auto& spec = made[static_cast<std::size_t>(s)][static_cast<std::size_t>(p)];
        spec.site = SiteId(s);
        spec.pool = PoolId(p);
      }
    }
    return made;
  }();
  return &specs[static_cast<std::size_t>(site)][static_cast<std::size_t>(pool)];
}

struct Fleet {
  /// Instances by (site, pool), and at most so many requests in flight over all.
  Fleet(std::initializer_list<std::pair<int, int>> places, std::vector<Residency> residencies,
        std::int64_t bound = 1000, DispatchPolicies policies = {}) {
    std::vector<InstanceView> views;
    for (const auto& [site, pool] : places) {
      InstanceView view;
      view.id = InstanceId(static_cast<std::int32_t>(views.size()));
      view.spec = spec_at(site, pool);
      views.push_back(view);
    }
    FleetLoopOptions options;
    options.service.classes = Classifier({100}, {});
    for (const Residency& residency : residencies) options.service.tenants.push_back({"", {}, {}, 0, 1.0, residency});
    if (!policies.admission.policy) {
      policies.admission.policy =
          std::make_shared<policy::BoundedAdmission>(policy::BoundedAdmissionOptions{bound, 1'000'000});
    }
    loop = std::make_unique<FleetLoop>(std::move(views), std::move(policies), 1, options, driver, journal);
  }
  RequestId send(const Residency& residency, std::int32_t prompt_tokens = 10) {
    Request request;
    request.id = RequestId(next++);
    request.arrival = now;
    request.prompt_tokens = prompt_tokens;
    request.max_tokens = 10;
    request.residency = residency;
    loop->arrive(request, 0, now);
    now = now + Span::ms(1);
    return request.id;
  }
  [[nodiscard]] InstanceId place(RequestId id) const {
    const auto found = driver.where.find(id);
    return found == driver.where.end() ? kNoInstance : found->second.instance;
  }
  [[nodiscard]] bool refused(RequestId id) const {
    const auto found = driver.where.find(id);
    return found != driver.where.end() && found->second.place == Driver::Place::Refused;
  }
  Driver driver;
  Journal journal;
  std::unique_ptr<FleetLoop> loop;
  Instant now;
  std::int64_t next = 0;
};

TEST(Residency, ARequestGoesWhereItMayOrIsRefusedAndCounted) {
  Fleet fleet({{0, 0}, {1, 0}}, {at({1}), at({2})});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fleet.place(fleet.send(at({1}))), InstanceId(1));
  EXPECT_EQ(fleet.place(fleet.send({})), InstanceId(0)) << "the least loaded";
  EXPECT_TRUE(fleet.refused(fleet.send(at({2}))));
  EXPECT_EQ(fleet.loop->counts().rejected, 1);
}

TEST(Residency, OneThatWaitsForItsSiteDoesNotStopOthers) {
  Fleet fleet({{0, 0}, {1, 0}}, {at({1})});
  fleet.loop->set_accepting(InstanceId(1), false, fleet.now);
  const RequestId waits = fleet.send(at({1}));
  EXPECT_EQ(fleet.place(waits), kNoInstance);
  EXPECT_EQ(fleet.place(fleet.send({})), InstanceId(0));
  EXPECT_EQ(fleet.loop->counts().held, 1);
  fleet.loop->set_accepting(InstanceId(1), true, fleet.now);
  EXPECT_EQ(fleet.place(waits), InstanceId(1));
}

TEST(Residency, OneThatWaitsForASiteThatIsGoneForGoodIsRefused) {
  Fleet fleet({{0, 0}, {1, 0}}, {at({1})});
  fleet.loop->set_accepting(InstanceId(1), false, fleet.now);
  const RequestId waits = fleet.send(at({1}));
  fleet.loop->remove_instance(InstanceId(1), fleet.now);
  EXPECT_TRUE(fleet.refused(waits));
  EXPECT_EQ(fleet.loop->counts().held, 0);
  EXPECT_EQ(fleet.loop->counts().in_flight, 0);
}

TEST(Residency, ItsOwnPoolIsNoHelpAtAnotherSite) {
  // Class 0 has pool 0 at site 0. Its requests that must stay at site 1 go to the larger class's pool there.
  Fleet fleet({{0, 0}, {1, 1}}, {at({1}), at({0})});
  const std::vector<PoolWeight> weights{{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(1), 1.0}};
  fleet.loop->reroute(weights, fleet.now);
  EXPECT_EQ(fleet.place(fleet.send({})), InstanceId(0));
  EXPECT_EQ(fleet.place(fleet.send(at({1}))), InstanceId(1));
  EXPECT_EQ(fleet.place(fleet.send(at({0}), 200)), InstanceId(0)) << "a smaller pool, for want of any other there";
}

TEST(Residency, HeldRequestsMayBePutInAnotherOrder) {
  DispatchPolicies policies;
  policies.queueing.policy = std::make_shared<policy::ShortestRemainingFirst>(policy::ServiceOptions{});
  Fleet fleet({{0, 0}}, {}, 1, std::move(policies));
  EXPECT_TRUE(fleet.loop->ordered_by_policy());
  std::vector<RequestId> ids;
  for (const int tokens : {5, 30, 20, 10}) {
    Request request;
    request.id = RequestId(fleet.next++);
    request.max_tokens = tokens;
    fleet.loop->arrive(request, 0, fleet.now);
    ids.push_back(request.id);
  }
  const auto next = [&](RequestId done) {
    fleet.loop->leave(done, Fate::Finished, "", {}, fleet.now);
    return RequestId(fleet.driver.started.back());
  };
  EXPECT_EQ(next(ids[0]), ids[3]) << "the shortest";
  fleet.loop->order_by_policy(false, fleet.now);
  EXPECT_EQ(next(ids[3]), ids[1]) << "the first";
  fleet.loop->order_by_policy(true, fleet.now);
  EXPECT_EQ(next(ids[1]), ids[2]);
}

RC_GTEST_PROP(Residency, NobodyIsEverWhereItMayNotBe, ()) {
  std::vector<Residency> all{{}};
  for (int mask = 1; mask < 8; ++mask) {
    Residency& one = all.emplace_back();
    one.sites = static_cast<std::uint64_t>(mask);
  }
  Fleet fleet({{0, 0}, {1, 0}, {2, 0}, {0, 1}, {2, 1}}, all, 2);
  const std::vector<PoolWeight> weights{{ClassId(0), PoolId(0), 1.0}, {ClassId(1), PoolId(1), 1.0}};
  if (*rc::gen::arbitrary<bool>()) fleet.loop->reroute(weights, fleet.now);
  std::vector<std::pair<RequestId, Residency>> sent;
  std::set<std::int64_t> left;
  const int events = *rc::gen::inRange(10, 80);
  for (int event = 0; event < events; ++event) {
    const int what = *rc::gen::inRange(0, 10);
    if (what < 6) {
      const Residency& residency = all[static_cast<std::size_t>(*rc::gen::inRange(0, 8))];
      sent.emplace_back(fleet.send(residency, *rc::gen::element(10, 200)), residency);
    } else if (what < 8 && !fleet.driver.started.empty()) {
      const auto i = static_cast<std::size_t>(*rc::gen::inRange<int>(0, static_cast<int>(fleet.driver.started.size())));
      const std::int64_t id = fleet.driver.started[i];
      if (left.insert(id).second) fleet.loop->leave(RequestId(id), Fate::Finished, "", {}, fleet.now);
    } else {
      fleet.loop->set_accepting(InstanceId(*rc::gen::inRange(0, 5)), *rc::gen::arbitrary<bool>(), fleet.now);
    }
  }
  for (const InstanceView& view : fleet.loop->instances()) fleet.loop->set_accepting(view.id, true, fleet.now);
  for (std::size_t i = 0; i < fleet.driver.started.size(); ++i) {  // the vector grows during the loop
    const std::int64_t id = fleet.driver.started[i];
    if (left.insert(id).second) fleet.loop->leave(RequestId(id), Fate::Finished, "", {}, fleet.now);
  }
  RC_ASSERT(fleet.loop->counts().in_flight == 0);
  for (const auto& [id, residency] : sent) {
    const InstanceId place = fleet.place(id);
    RC_ASSERT(place != kNoInstance && residency.allows(fleet.loop->find(place)->spec->site));
  }
}

}  // namespace
}  // namespace wattle::control::fleet_loop_residency_test
