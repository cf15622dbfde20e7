// Classes and tiers in the journal: judged, counted, written and read back.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "journal/requests_reader_test.h"
#include "journal/run_directory.h"
#include "journal/statistics.h"
#include "journal/summary_json.h"

namespace wattle::journal {
namespace {

Service service() {
  Service made;
  made.classes = Classifier({100}, {});
  Slo fleet;
  fleet.ttft = Span::ms(100);
  made.objectives = Objectives(fleet, {}, {}, {{"strict", {}, 1.0}, {"loose", {}, 3.0}});
  return made;
}

Outcome outcome(std::int64_t id, std::int32_t prompt, std::int32_t tier, Span ttft) {
  Outcome o;
  o.request.id = RequestId(id);
  o.request.prompt_tokens = prompt;
  o.request.request_class = service().classes.of(prompt, 1);
  o.request.tier = TierId(tier);
  o.request.origin = SiteId(2);
  o.request.priority = -1;
  o.first_token = Instant() + ttft;
  o.left = o.first_token;
  o.output_tokens = 1;
  return o;
}

TEST(ServiceRows, EachRequestIsJudgedByItsTierAndCountedByItsClass) {
  const Service s = service();
  RunStatistics statistics(*s.objectives, s.classes);
  statistics.add_arrivals(3);
  statistics.outcome(outcome(1, 10, 0, Span::ms(200)));
  statistics.outcome(outcome(2, 10, 1, Span::ms(200)));
  statistics.outcome(outcome(3, 500, 1, Span::ms(400)));
  statistics.decision({Instant(), DecisionKind::Emergency, Mode::Enforce, RequestId(1), InstanceId(0),
                       static_cast<std::int64_t>(Rung::Resteer), ""});
  statistics.decision({Instant(), DecisionKind::Emergency, Mode::Shadow, RequestId(1), InstanceId(0),
                       static_cast<std::int64_t>(Rung::Squash), ""});
  const RunSummary summary = statistics.summary();
  EXPECT_DOUBLE_EQ(summary.slo.all, 1.0 / 3);
  const auto read = summary_from_json(to_json(summary), "run");
  ASSERT_TRUE(read) << read.error().message();
  for (const RunSummary& one : {summary, *read}) {
    ASSERT_EQ(one.service_by_class.size(), 2U);
    EXPECT_EQ(one.service_by_class[0].name, "S");
    EXPECT_EQ(one.service_by_class[0].left, 2);
    EXPECT_DOUBLE_EQ(one.service_by_class[0].attainment, 0.5);
    ASSERT_EQ(one.service_by_tier.size(), 2U);
    EXPECT_DOUBLE_EQ(one.service_by_tier[0].attainment, 0.0);
    EXPECT_DOUBLE_EQ(one.service_by_tier[1].attainment, 0.5);
    EXPECT_EQ(one.emergency.resteered, 1);
    EXPECT_EQ(one.emergency.squashed, 0) << "shadow is no step";
  }
}

TEST(ServiceRows, ARequestsNounsAreWritten) {
  std::string text(requests_csv_header());
  append_request_row(text, outcome(7, 500, 1, Span::ms(1)));
  int rows = 0;
  for_each_request(text, [&](const Outcome& o) {
    ++rows;
    EXPECT_EQ(o.request.request_class, ClassId(1));
    EXPECT_EQ(o.request.tier, TierId(1));
    EXPECT_EQ(o.request.origin, SiteId(2));
    EXPECT_EQ(o.request.priority, -1);
  });
  EXPECT_EQ(rows, 1);
}

TEST(ServiceRows, FactsKeepWhatRequestsAreHeldTo) {
  RunFile run;
  run.facts.driver = "sim";
  run.facts.slo.ttft = Span::ms(100);
  run.summary.slo = {1.0, 1.0, 1.0, 1.0, 1.0};  // as in older files, for objectives that are not stated
  run.facts.service = service();
  const auto read = parse_run(run_json(run), "run.json");
  ASSERT_TRUE(read) << read.error().message();
  const Service& s = read->facts.service;
  EXPECT_EQ(s.classes, service().classes);
  ASSERT_TRUE(s.objectives);
  EXPECT_EQ(s.objectives->of(TierId(1), ClassId(0)).ttft, Span::ms(300));
  EXPECT_EQ(s.objectives->tiers()[1].name, "loose");
  EXPECT_EQ(read->summary.slo.ttft, 1.0);
  EXPECT_TRUE(std::isnan(read->summary.slo.e2e)) << "no tier or size states it";
}

TEST(Requests, ACarbonThatIsUnknownIsAnEmptyCellBesideItsEnergy) {
  Outcome o;
  o.energy = Picojoules(1'500'000'000'000);
  o.carbon = GramsCo2(std::nan(""));
  o.cost = Usd(std::nan(""));
  std::string row;
  append_request_row(row, o);
  EXPECT_NE(row.find(",1.500000000000,,,"), std::string::npos) << row;
  std::size_t rows = 0;
  for_each_request(std::string(requests_csv_header()) + row, [&](const Outcome& read) {
    ++rows;
    EXPECT_TRUE(read.metered);
    EXPECT_EQ(read.energy, o.energy);
    EXPECT_TRUE(std::isnan(read.carbon.value()) && std::isnan(read.cost.value()));
  });
  EXPECT_EQ(rows, 1U);
}

TEST(Requests, OneThatHasNotLeftHasARowToo) {
  Outcome o;
  o.fate = Fate::InFlight;
  o.dispatched = o.prefill_start = o.left = Instant::never();
  std::string row;
  append_request_row(row, o);
  std::size_t rows = 0;
  for_each_request(std::string(requests_csv_header()) + row, [&](const Outcome& read) {
    ++rows;
    EXPECT_EQ(read.fate, Fate::InFlight);
    EXPECT_EQ(read.left, Instant::never());
  });
  EXPECT_EQ(rows, 1U);
}

}  // namespace
}  // namespace wattle::journal
