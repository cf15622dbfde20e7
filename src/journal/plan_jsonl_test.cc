#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "journal/decisions_jsonl.h"

namespace wattle::journal {
namespace {

TEST(Decisions, APlanIsALineOfItsOwnThatReadersOfDecisionsUnderstand) {
  Plan plan = Plan::of({1}, "cluster");
  plan.weights = {{ClassId(2), PoolId(1), 1.0}};
  plan.given.emplace().gpus = 8;
  plan.passed.emplace_back().pool = PoolId(1);
  plan.steps.emplace_back().kind = StepKind::Reroute;
  plan.levels.push_back({"cluster", {}, Instant(5), 8, plan.given, plan.passed, "forecast"});
  std::string line;
  append_plan_line(line, {Instant(7), Mode::Enforce, plan, 8});
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["plan"]["weights"][0]["class"], 2);
  EXPECT_EQ(json["plan"]["given"]["gpus"], 8);
  EXPECT_EQ(json["plan"]["levels"][0]["passed"][0]["pool"], 1);
  EXPECT_EQ(json["plan"]["steps"][0]["kind"], "reroute");
  int seen = 0;
  const auto read = parse_decisions(line, "d", [&](const DecisionRecord& d) {
    ++seen;
    EXPECT_EQ(d.kind, DecisionKind::Plan);
    EXPECT_EQ(d.value, 8);
  });
  EXPECT_TRUE(read && seen == 1);
}

}  // namespace
}  // namespace wattle::journal
