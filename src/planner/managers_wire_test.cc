#include "planner/managers_wire.h"

#include <gtest/gtest.h>

#include "planner/manager_links.h"

namespace wattle::planner {
namespace {

constexpr Span kSkew = Span::s(-7000);  ///< the receiver's clock against the sender's
const Instant kSent{9'000'000'000'000};

Observation two_members() {
  Observation seen;
  seen.now = kSent;
  seen.rate_per_s = {1.5, 0.0};
  seen.turned_out.add(ClassId(0), ClassId(1), 7);
  seen.turned_out.add_late(ClassId(0), 3);
  FleetMember m;
  m.id = InstanceId(4);
  m.shape = 1;
  m.phase = Phase::Serving;
  m.since = kSent - Span::s(30);
  m.pool = PoolId(1);
  m.node = NodeId(2);
  m.gpus = {0, 1};
  m.changing = true;
  seen.members = {m, {InstanceId(5), 0, Phase::Warming, kSent}};
  seen.weights = {{ClassId(0), PoolId(1), 0.75}};
  seen.clocks = {{PoolId(1), MegaHertz(210), MegaHertz(900)}};
  return seen;
}

TEST(ManagersWire, AnObservationArrivesOnTheReceiversClock) {
  const Instant now = kSent + kSkew;
  const auto read = observation_from_json(to_json(two_members()), 2, 2, now);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->now, now);
  EXPECT_EQ(read->rate_per_s, (std::vector{1.5, 0.0}));
  EXPECT_EQ(read->turned_out.rows(), (std::vector<std::vector<std::int64_t>>{{0, 7}}));
  EXPECT_EQ(read->turned_out.late(), std::vector<std::int64_t>{3});
  ASSERT_EQ(read->members.size(), 2U);
  const FleetMember& m = read->members[0];
  EXPECT_EQ(now - m.since, Span::s(30)) << "as long as it has been, whatever the clocks say";
  EXPECT_TRUE(m.id == InstanceId(4) && m.shape == 1 && m.pool == PoolId(1) && m.node == NodeId(2) && m.changing);
  EXPECT_EQ(m.gpus, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(read->members[1].phase, Phase::Warming);
  EXPECT_EQ(read->counts[1].serving, 1);
  EXPECT_EQ(read->weights.front().weight, 0.75);
  EXPECT_EQ(read->clocks.front().most, MegaHertz(900));
}

TEST(ManagersWire, BadMessagesSayWhatIsWrong) {
  const auto problem = [](std::string_view text) {
    const auto read = observation_from_json(text, 1, 2, Instant());
    return read ? std::string("accepted") : read.error().message();
  };
  EXPECT_EQ(problem("3"), "observation: is one JSON object");
  EXPECT_EQ(problem("{}"), "observation: now_ns is missing");
  EXPECT_EQ(problem(R"({"now_ns":0,"rate_per_s":[-1],"members":[]})"),
            "observation: rate_per_s must be numbers from 0 to 1e+09");
  EXPECT_EQ(problem(R"({"now_ns":0,"rate_per_s":[1e300,1],"members":[]})"),
            "observation: rate_per_s must be numbers from 0 to 1e+09");
  EXPECT_EQ(problem(R"({"now_ns":0,"rate_per_s":[1,1,1],"members":[]})"),
            "observation: rate_per_s has 3 numbers; it must have one for each of 2 classes, or none where nothing has "
            "come");
  EXPECT_EQ(problem(R"({"now_ns":0,"rate_per_s":[],"turned_out":[[1],3],"members":[]})"),
            "observation: turned_out must be a list of lists");
  EXPECT_EQ(problem(R"({"now_ns":0,"rate_per_s":[],"late":[0.5],"members":[]})"),
            "observation: late must have whole numbers from 0");
  EXPECT_EQ(problem(R"({"now_ns":0,"rate_per_s":[],"turned_out":[[-1]],"members":[]})"),
            "observation: turned_out must have whole numbers from 0");
  EXPECT_EQ(problem(R"({"now_ns":0,"rate_per_s":[],"members":[{"engine":0,"shape":1}]})"),
            "observation: shape must be a whole number from 0 to 0");
  EXPECT_NE(problem(R"({"now_ns":0,"rate_per_s":[],"members":[{"engine":0,"shape":0,"phase":"asleep"}]})"), "accepted");
  EXPECT_FALSE(mandate_from_json(R"({"now_ns":0})", 2, Instant()));
  EXPECT_FALSE(cluster_observation_from_json(R"({"rate_per_s":[1],"gpus":[1],"forwarded":[0]})", 2, 1));
  managers::ClusterObservation of_pools;
  of_pools.rate_per_s = {1.5};
  of_pools.gpus = {8, 0};
  of_pools.forwarded = {0.25, 0.0};
  of_pools.reserve = {0.12, 0.0};
  const auto as_read = cluster_observation_from_json(to_json(of_pools), 2, 1);
  ASSERT_TRUE(as_read.has_value()) << as_read.error().message();
  EXPECT_EQ(as_read->reserve, of_pools.reserve);
  of_pools.reserve = {1.0, 0.0};
  EXPECT_FALSE(cluster_observation_from_json(to_json(of_pools), 2, 1));
  of_pools.reserve = {0.12};
  EXPECT_FALSE(cluster_observation_from_json(to_json(of_pools), 2, 1));
  EXPECT_FALSE(part_from_json("[]", Instant()));
}

TEST(ManagersWire, AClusterManagerTakesNoOtherLengthsNorSharesAboveOne) {
  const auto problem = [](std::string_view text) {
    const auto read = cluster_observation_from_json(text, 2, 3);
    return read ? std::string("accepted") : read.error().message();
  };
  EXPECT_EQ(problem(R"({"rate_per_s":[1,1],"gpus":[0,4],"forwarded":[1,0]})"),
            "observation: rate_per_s has 2 numbers; it must have one for each of 3 classes, or none where nothing has "
            "come");
  EXPECT_EQ(problem(R"({"rate_per_s":[1e300,1,1],"gpus":[0,4],"forwarded":[1,0]})"),
            "observation: rate_per_s must be numbers from 0 to 1e+09");
  EXPECT_EQ(problem(R"({"rate_per_s":[1,1,1],"gpus":[0,4],"forwarded":[5,5]})"),
            "observation: forwarded must be numbers from 0 to 1");
  EXPECT_EQ(problem(R"({"rate_per_s":[1,1,1],"gpus":[4],"forwarded":[1,0]})"),
            "observation: gpus has 1 entries; it must have one for each of 2 pools, or none");
  EXPECT_EQ(problem(R"({"rate_per_s":[],"gpus":[0,4],"forwarded":[1,0]})"), "accepted");
}

TEST(ManagersWire, WhereNothingHasComeNoClassHasARate) {
  Observation seen = two_members();
  seen.rate_per_s = {0.0};  // an executor that has heard nothing yet does not know the classes
  const auto read = observation_from_json(to_json(seen), 2, 9, kSent);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->rate_per_s, std::vector<double>(9, 0.0));
}

TEST(ManagersWire, AMandateKeepsItsEpochsAcrossClocks) {
  managers::ClusterMandate mandate;
  mandate.present = {{8, 16}, {1.0, 2.0}, {0.25, 0.0}, {0.0, 0.0}, kSent - Span::s(10), kSent + Span::s(20), 7, "p"};
  mandate.present.tiers = "2 pools of 2 tiers";
  mandate.next = mandate.present;
  mandate.next->from = kSent + Span::s(20);
  mandate.next->until = Instant::never();
  const Instant now = kSent + kSkew;
  const auto read = mandate_from_json(to_json(mandate, kSent), 2, now);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->present.gpus, (std::vector{8, 16}));
  EXPECT_EQ(read->present.forwarded, (std::vector{0.25, 0.0}));
  EXPECT_EQ(read->present.number, 7);
  EXPECT_EQ(read->present.tiers, "2 pools of 2 tiers");
  EXPECT_EQ(read->present.until, now + Span::s(20));
  ASSERT_TRUE(read->next.has_value());
  EXPECT_EQ(read->next->from, now + Span::s(20));
  EXPECT_EQ(read->next->until, Instant::never());
  EXPECT_FALSE(mandate_from_json(to_json(mandate, kSent), 3, now)) << "of another number of pools";
}

Plan part(std::int32_t pool, std::int32_t count) {
  Plan plan;
  plan.instances = {{0, count, {}, PoolId(pool)}};
  plan.weights = {{ClassId(pool), PoolId(pool), 0.5}, {ClassId(pool), PoolId(1), 0.5}};
  PlanLevel level{
      .name = "pool", .pool = PoolId(pool), .made = kSent, .gpus = count, .given = {}, .passed = {}, .reason = "r"};
  level.given =
      Mandate{.pool = PoolId(pool), .gpus = 8, .load_per_s = 1.5, .least = {}, .most = {}, .until = kSent + Span::s(5)};
  plan.levels = {level};
  plan.reason = "part";
  return plan;
}

TEST(ManagersWire, APartArrivesWithItsLevels) {
  const auto read = part_from_json(to_json(part(3, 2), kSent), kSent + kSkew);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->instances.front().pool, PoolId(3));
  ASSERT_EQ(read->levels.size(), 1U);
  EXPECT_STREQ(read->levels.front().name, "pool");
  EXPECT_EQ(read->levels.front().given->gpus, 8);
  EXPECT_EQ(read->levels.front().given->until, kSent + kSkew + Span::s(5));
  EXPECT_STREQ(read->reason, "part");
}

TEST(ManagerLinks, APoolThatTwoManagersPlanIsFound) {
  const Plan first = part(0, 1), second = part(1, 2), other = part(2, 1);
  const Plan again = part(1, 5);
  EXPECT_EQ(shared_pool({}, first), std::nullopt);
  EXPECT_EQ(shared_pool({&first, &second}, other), std::nullopt);
  EXPECT_EQ(shared_pool({&first, &second}, again), PoolId(1));
}

TEST(ManagerLinks, PoolsThatNobodyPlansStayAndNothingIsShed) {
  Observation seen = two_members();
  seen.members[1].pool = PoolId(0);
  seen.weights.push_back({ClassId(5), PoolId(1), 1.0});
  const Plan planned = part(0, 1);
  const Plan plan = merged({&planned}, seen.view());
  ASSERT_EQ(plan.instances.size(), 2U);
  EXPECT_EQ(plan.instances[0].pool, PoolId(1)) << "as it is";
  EXPECT_EQ(plan.instances[1].pool, PoolId(0)) << "as planned";
  const auto goes = [&](std::int32_t request_class) {
    double sum = 0.0;
    for (const PoolWeight& w : plan.weights) sum += w.request_class == ClassId(request_class) ? w.weight : 0.0;
    return sum;
  };
  EXPECT_DOUBLE_EQ(goes(0), 1.0);
  EXPECT_DOUBLE_EQ(goes(5), 1.0) << "nobody routes it: as it is";
  // Nobody staffs pool 1 any more: the other one gets all of class 0.
  seen.members.clear();
  const Plan alone = merged({&planned}, seen.view());
  ASSERT_EQ(alone.weights.size(), 1U);
  EXPECT_EQ(alone.weights.front().pool, PoolId(0));
  EXPECT_DOUBLE_EQ(alone.weights.front().weight, 1.0);
}

}  // namespace
}  // namespace wattle::planner
