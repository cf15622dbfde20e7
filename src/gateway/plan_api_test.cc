#include "gateway/plan_api.h"

#include <gtest/gtest.h>

namespace wattle::gateway {
namespace {

TEST(PutPlan, IsReadAsAPlanIsWritten) {
  const auto plan = read_plan(R"({"weights":[{"class":0,"pool":3,"weight":0.25},{"class":0,"pool":1,"weight":0.75}],)"
                              R"("clocks":[{"pool":3,"least_mhz":210,"most_mhz":1410}],"lease_ms":1500})",
                              2);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  ASSERT_EQ(plan->weights.size(), 2U);
  EXPECT_EQ(plan->weights[1].pool, PoolId(1));
  EXPECT_EQ(plan->weights[1].weight, 0.75);
  EXPECT_EQ(plan->clocks.front().most, MegaHertz(1410));
  EXPECT_EQ(plan->lease, Span::ms(1500));
  EXPECT_TRUE(read_plan(R"({"weights":[],"clocks":[]})", 1).has_value()) << "nothing is leased";
}

TEST(PutPlan, BadOnesSayWhichKeyAndWhy) {
  const auto param = [](const std::string& body) {
    const auto plan = read_plan(body, 2);
    EXPECT_TRUE(plan.has_value() || plan.error().status == 400);
    return plan ? std::string("accepted") : plan.error().param;
  };
  EXPECT_EQ(param("[]"), "");
  EXPECT_EQ(param(R"({"clocks":[]})"), "weights");
  EXPECT_EQ(param(R"({"weights":[]})"), "clocks") << "or a misspelt key lifted all bounds";
  const auto weights = [&](const char* items) {
    return param(std::string(R"({"clocks":[],"weights":[)") + items + "]}");
  };
  EXPECT_EQ(weights(R"({"class":1,"pool":0,"weight":1})"), "accepted");
  EXPECT_EQ(weights(R"({"class":2,"pool":0,"weight":1})"), "weights") << "it has two classes";
  EXPECT_EQ(weights(R"({"class":0,"pool":-1,"weight":1})"), "weights");
  EXPECT_EQ(weights(R"({"class":0,"pool":18446744073709551615,"weight":1})"), "weights");
  EXPECT_EQ(weights(R"({"class":0,"pool":0,"weight":"1"})"), "weights");
  EXPECT_EQ(weights(R"({"class":0,"pool":0,"weight":-0.5})"), "weights");
  EXPECT_EQ(weights(R"({"class":0,"pool":0,"weight":0.6},{"class":0,"pool":1,"weight":0.6})"), "weights");
  EXPECT_EQ(weights("3"), "weights");
  const auto clocks = [&](const char* items, const char* lease = R"(,"lease_ms":1000)") {
    return param(std::string(R"({"weights":[],"clocks":[)") + items + "]" + lease + "}");
  };
  const char* one = R"({"pool":0,"least_mhz":210,"most_mhz":1410})";
  EXPECT_EQ(clocks(one), "accepted");
  EXPECT_EQ(clocks(one, ""), "lease_ms") << "bounds without an end outlive their planner";
  EXPECT_EQ(clocks(one, R"(,"lease_ms":0)"), "lease_ms");
  EXPECT_EQ(clocks(one, R"(,"lease_ms":1e9)"), "lease_ms");
  EXPECT_EQ(clocks(R"({"pool":0,"least_mhz":1410,"most_mhz":210})"), "clocks");
  EXPECT_EQ(clocks(R"({"pool":0,"least_mhz":0,"most_mhz":210})"), "clocks");
  EXPECT_EQ(clocks((std::string(one) + "," + one).c_str()), "clocks");
  EXPECT_EQ(param(R"({"weights":[],"clocks":[],"planner":7})"), "planner");
}

TEST(NewestPlanner, OneThatWasReplacedWaitsForItsSuccessorsLease) {
  NewestPlanner planners;
  const auto takes = [&](const char* name, std::int64_t at_ms) {
    return planners.takes({{}, {}, Span::ms(100), name}, Instant() + Span::ms(at_ms));
  };
  EXPECT_TRUE(takes("a", 10));
  EXPECT_TRUE(takes("b", 20)) << "as after a restart";
  for (std::int64_t ms = 30; ms < 400; ms += 50) {
    EXPECT_FALSE(takes("a", ms));
    EXPECT_TRUE(takes("b", ms + 20));
    EXPECT_TRUE(takes("", ms + 20)) << "an operator's";
  }
  EXPECT_TRUE(takes("c", 410));
  EXPECT_FALSE(takes("a", 420));
  EXPECT_FALSE(takes("b", 509));
  EXPECT_TRUE(takes("b", 510)) << "the newest is gone, or stalled";
  EXPECT_TRUE(takes("c", 520)) << "it is back, as one that was started now";
  EXPECT_FALSE(takes("b", 530));
}

}  // namespace
}  // namespace wattle::gateway
