#include "journal/plan_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "journal/decisions_jsonl.h"

namespace wattle::journal {
namespace {

TEST(PlanReader, ReadsWhatTheJournalWrites) {
  const auto plan =
      plan_from_json(R"({"instances":[{"shape":1,"count":2,"pool":3}],"weights":[{"class":0,"pool":3,"weight":1.0}],)"
                     R"("clocks":[{"pool":3,"least_mhz":210,"most_mhz":1410}],)"
                     R"("steps":[{"kind":"reshard","from":[0],"to":[1,1],"serves_on":true}]})");
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->instances.front().pool, PoolId(3));
  EXPECT_EQ(plan->weights.front().weight, 1.0);
  EXPECT_EQ(plan->clocks.front().most, MegaHertz(1410));
  EXPECT_EQ(plan->steps.front().kind, StepKind::Reshard);
  EXPECT_EQ(plan->steps.front().to, (std::vector<std::size_t>{1, 1}));
  EXPECT_TRUE(plan->steps.front().serves_on);
}

TEST(PlanReader, LevelsComeBackOnTheReadersClock) {
  const Instant made(9'000'000'000);
  Plan plan;
  const Mandate below{PoolId(2), 16, 1.5, MegaHertz(810), MegaHertz(1980), made + Span::s(60)};
  plan.levels.push_back({"pool", PoolId(2), made, 8, below, {below}, "because"});
  plan.given = below;
  plan.problem = "2 of 3/s of LL shed";
  const Span later = Span::s(-3);
  const auto read = plan_from_json(plan_json(plan).dump(), later);
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->levels.size(), 1U);
  const PlanLevel& level = read->levels.front();
  EXPECT_STREQ(level.name, "pool");
  EXPECT_STREQ(level.reason, "because");
  EXPECT_EQ(read->problem, plan.problem);
  EXPECT_EQ(level.made, made + later);
  EXPECT_EQ(level.given->until, made + Span::s(57));
  EXPECT_EQ(level.passed.front().least, MegaHertz(810));
  Plan again = *read;
  put_later(again, Span() - later);
  EXPECT_EQ(plan_json(again).dump(), plan_json(plan).dump());
}

TEST(PlanReader, BadOnesSayWhatIsWrong) {
  const auto problem = [](const char* text) {
    const auto plan = plan_from_json(text);
    return plan ? std::string("accepted") : plan.error().message();
  };
  EXPECT_EQ(problem("[]"), "plan: is one JSON object with a list of instances");
  EXPECT_EQ(problem(R"({"instances":[{"shape":0}]})"), "plan: instances[0].count is missing");
  EXPECT_EQ(problem(R"({"instances":3})"), "plan: instances must be a list");
  EXPECT_EQ(problem(R"({"levels":[{"name":"pool","made_ns":"now","reason":""}]})"),
            "plan: made_ns must be a whole number from -1152921504606846976 to 1152921504606846976");
  EXPECT_EQ(problem(R"({"steps":[{"kind":"jump"}]})"),
            "plan: steps[0].kind is 'jump'; use start, drain, reshard, move or reroute");
  EXPECT_EQ(problem(R"({"instances":[{"shape":0,"count":1},{"shape":0,"count":-1}]})"),
            "plan: instances[1].count must be a whole number from 0 to 100000");
  EXPECT_EQ(problem(R"({"instances":[{"shape":18446744073709551615,"count":1}]})"),
            "plan: instances[0].shape must be a whole number from 0 to 1000000000");
  EXPECT_EQ(problem(R"({"instances":[{"shape":0,"count":1.5}]})"),
            "plan: instances[0].count must be a whole number from 0 to 100000");
  EXPECT_EQ(problem(R"({"weights":[{"class":0,"pool":0,"weight":1.5}]})"),
            "plan: weights[0].weight must be a share from 0 to 1");
  EXPECT_EQ(problem(R"({"weights":[{"class":0,"pool":0,"weight":"all"}]})"),
            "plan: weights[0].weight must be a number");
  EXPECT_EQ(problem(R"({"steps":[{"kind":"drain","from":[-1]}]})"),
            "plan: steps[0].from must be a list of whole numbers from 0");
}

}  // namespace
}  // namespace wattle::journal
