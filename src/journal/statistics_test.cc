#include "journal/statistics.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/random.h"
#include "journal/digest_sink.h"
#include "journal/summary_json.h"
#include "journal/tee.h"

namespace wattle::journal {
namespace {

using Buckets = std::vector<std::pair<std::int64_t, std::int64_t>>;
Buckets buckets(const Histogram& h) {
  Buckets all;
  h.for_each_cumulative([&](std::int64_t upper, std::int64_t seen) { all.emplace_back(upper, seen); });
  return all;
}

void expect_same(const GapHistogram& a, const GapHistogram& b) {
  RC_ASSERT(buckets(a.histogram()) == buckets(b.histogram()));
  RC_ASSERT(a.count() == b.count());
  RC_ASSERT(a.histogram().max() == b.histogram().max());
  RC_ASSERT(a.mean_ns() == b.mean_ns());
}

RC_GTEST_PROP(GapHistogram, BulkEqualsOneByOne, ()) {
  const auto first = *rc::gen::inRange<std::int64_t>(0, std::int64_t{60'000'000} << kGapFractionBits);
  const auto increment = *rc::gen::oneOf(rc::gen::just<std::int64_t>(0), rc::gen::inRange<std::int64_t>(0, 4096),
                                         rc::gen::inRange<std::int64_t>(0, std::int64_t{50'000} << kGapFractionBits));
  const auto steps = *rc::gen::inRange<std::int64_t>(0, 700);
  const auto count = *rc::gen::inRange<std::int64_t>(0, 300);
  GapHistogram bulk;
  GapHistogram single;
  GapHistogram downwards;
  bulk.add_affine(first, increment, steps, count);
  for (std::int64_t i = 0; i < steps; ++i) single.add_affine(first + i * increment, 0, 1, count);
  if (steps > 0) downwards.add_affine(first + (steps - 1) * increment, -increment, steps, count);
  expect_same(bulk, single);
  expect_same(bulk, downwards);
}

TEST(GapHistogram, ABucketBoundaryIsExact) {
  // Up to 255 ns every value has its own bucket; from 256 on two share one.
  GapHistogram gaps;
  gaps.add_affine(std::int64_t{254} << kGapFractionBits, std::int64_t{1} << kGapFractionBits, 5, 3);  // 254..258
  EXPECT_EQ(buckets(gaps.histogram()), (Buckets{{254, 3}, {255, 6}, {257, 12}, {259, 15}}));
  EXPECT_DOUBLE_EQ(gaps.mean_ns(), 256.0);
}

TEST(GapHistogram, TheLargestDurationsAreNotLost) {
  constexpr std::int64_t kTop = std::numeric_limits<std::int64_t>::max();
  GapHistogram gaps;
  gaps.add_affine(kTop - 10, 1, 11, 2);
  EXPECT_EQ(gaps.count(), 22);
  EXPECT_EQ(gaps.histogram().max(), kTop >> kGapFractionBits);
  EXPECT_DEATH(gaps.add_affine(kTop, 1, 2, 1), "gap durations");
}

Slo slo_ttft() {
  Slo slo;
  slo.ttft = Span::ms(100);
  return slo;
}

Slo slo_all() { return Slo{.ttft = Span::ms(100), .itl = Span::ms(20), .tbt = Span::ms(15), .e2e = Span::ms(1000)}; }

Outcome finished(std::int64_t id, Span ttft, Span e2e, std::int32_t tokens, std::int64_t within) {
  Outcome o;
  o.request.id = RequestId(id);
  o.request.arrival = Instant(id * 1000);
  o.request.prompt_tokens = 100;
  o.dispatched = o.request.arrival;
  o.prefill_start = o.request.arrival + ttft / 2;
  o.first_token = o.request.arrival + ttft;
  o.left = o.request.arrival + e2e;
  o.output_tokens = tokens;
  o.gaps_within_itl = within;
  return o;
}

TEST(RunStatistics, FairnessAsFreeshDefinesIt) {
  // Lat = 100 ms + 10 ms x tokens. Of 4 and 8 tokens: 140 and 180 ms, in time within 196 and 252 ms, violated beyond
  // 700 and 900 ms.
  RunStatistics stats({}, {}, FairnessBasis{{Span::ms(100), Span::ms(10)}, 1.4, 5.0});
  stats.add_arrivals(5);
  stats.outcome(finished(1, Span::ms(100), Span::ms(160), 4, 0));     // all in time
  stats.outcome(finished(2, Span::ms(100), Span::ms(400), 4, 0));     // at 100, 200, 300, 400: one
  Outcome longest = finished(3, Span::ms(100), Span::ms(800), 8, 0);  // at 100, 200, ... 800: two
  longest.longest_gap = Span::ms(300);
  stats.outcome(longest);
  stats.outcome(finished(4, Span::ms(300), Span::ms(1000), 8, 0));  // none, and a violation
  const Fairness f = stats.summary().fairness;
  // Quartiles of lengths 4, 4, 8, 8: buckets are not split, so two clients with 5 and 2 tokens in time.
  EXPECT_DOUBLE_EQ(f.jain, 49.0 / (2.0 * 29.0));
  EXPECT_DOUBLE_EQ(f.violation_rate, 0.4) << "one late, one still there, of five";
  EXPECT_EQ(f.waiting.count, 4);
  EXPECT_NEAR(f.waiting.mean_ms, (100 + 100 + 300 + 300) / 4.0, 1e-9);
  EXPECT_TRUE(std::isnan(RunStatistics({}).summary().fairness.jain)) << "nothing is known of how long requests take";
}

TEST(RunStatistics, JudgesArrivedRequestsByEverySloStated) {
  RunStatistics stats(slo_all());
  stats.add_arrivals(8);
  stats.outcome(finished(1, Span::ms(100), Span::ms(200), 11, 10));    // meets all, on the very limit of TTFT
  stats.outcome(finished(2, Span::ms(101), Span::ms(200), 11, 10));    // TTFT
  stats.outcome(finished(3, Span::ms(50), Span::ms(150), 11, 9));      // one late gap, mean gap 10 ms: meets all
  stats.outcome(finished(4, Span::ms(50), Span::ms(250), 11, 10));     // mean gap 20 ms > TBT
  stats.outcome(finished(5, Span::ms(50), Span::ms(1200), 101, 100));  // E2E
  Outcome rejected;
  rejected.fate = Fate::Rejected;
  stats.outcome(rejected);
  Outcome failed = finished(7, Span::ms(10), Span::ms(20), 2, 1);
  failed.fate = Fate::Failed;
  failed.preemptions = 2;
  stats.outcome(failed);
  stats.add_gap(Span::ms(20), 3, 3);
  stats.add_gap(Span::ns(20'000'001), 1, 0);

  const RunSummary s = stats.summary();
  EXPECT_EQ(s.requests.arrived, 8);
  EXPECT_EQ(s.requests.finished, 5);
  EXPECT_EQ(s.requests.rejected, 1);
  EXPECT_EQ(s.requests.failed, 1);
  EXPECT_EQ(s.requests.in_flight, 1);
  EXPECT_EQ(s.requests.preempted, 1);
  EXPECT_EQ(s.requests.preemptions, 2);
  EXPECT_EQ(s.tokens.prompt, 600);
  EXPECT_EQ(s.tokens.output, 11 * 4 + 101 + 2);
  EXPECT_DOUBLE_EQ(s.slo.ttft, 4.0 / 8);
  EXPECT_DOUBLE_EQ(s.slo.tbt, 4.0 / 8);
  EXPECT_DOUBLE_EQ(s.slo.e2e, 4.0 / 8);
  EXPECT_DOUBLE_EQ(s.slo.itl, 3.0 / 4);
  EXPECT_DOUBLE_EQ(s.slo.all, 2.0 / 8);
  EXPECT_EQ(s.ttft.count, 5);
  EXPECT_NEAR(s.ttft.mean_ms, (100 + 101 + 50 * 3) / 5.0, 1e-9);
  EXPECT_NEAR(s.ttft.p50_ms, 50.0, 0.2);
  EXPECT_NEAR(s.e2e.max_ms, 1200.0, 1e-9);
}

TEST(RunStatistics, ARequestMeetsTheItlObjectiveByItsMeanGap) {
  Slo slo;
  slo.itl = Span::ms(20);
  RunStatistics stats(slo);
  stats.add_arrivals(2);
  stats.outcome(finished(1, Span::ms(50), Span::ms(250), 11, 5));  // mean gap 20 ms, half of the gaps late
  stats.outcome(finished(2, Span::ms(50), Span::ms(251), 11, 9));  // mean gap 20.1 ms, one late
  EXPECT_DOUBLE_EQ(stats.summary().slo.all, 0.5);
}

TEST(RunStatistics, AnObjectiveThatNobodyStatesHasNoShare) {
  RunStatistics stats(Slo{});
  stats.add_arrivals(2);
  stats.outcome(finished(1, Span::s(100), Span::s(200), 2, 0));
  Outcome cancelled;
  cancelled.fate = Fate::Cancelled;
  stats.outcome(cancelled);
  const RunSummary s = stats.summary();
  EXPECT_DOUBLE_EQ(s.slo.all, 0.5) << "finished";
  const auto json = to_json(s);
  for (const char* key : {"ttft", "itl", "tbt", "e2e"}) {
    EXPECT_TRUE(json["slo"][std::string(key) + "_attainment"].is_null()) << key;
  }
  EXPECT_EQ(s.requests.cancelled, 1);
}

TEST(RunStatistics, AnObjectiveThatOneTierStatesIsMetByTheOthersThatFinished) {
  Tier strict;
  strict.slo = slo_ttft();
  RunStatistics stats(Objectives(Slo{}, {}, {}, {Tier{}, strict}));
  stats.add_arrivals(3);
  Outcome o = finished(1, Span::s(100), Span::s(200), 2, 0);
  stats.outcome(o);
  for (const std::int64_t ttft_ms : {50, 200}) {
    o = finished(2, Span::ms(ttft_ms), Span::s(200), 2, 0);
    o.request.tier = TierId(1);
    stats.outcome(o);
  }
  const RunSummary s = stats.summary();
  EXPECT_DOUBLE_EQ(s.slo.ttft, 2.0 / 3);
  EXPECT_TRUE(std::isnan(s.slo.e2e));
}

TEST(RunStatistics, CountsOnlyEnforcedClockDecisions) {
  RunStatistics stats(Slo{});
  DecisionRecord decision;
  decision.kind = DecisionKind::Clock;
  stats.decision(decision);
  decision.mode = Mode::Shadow;
  stats.decision(decision);
  stats.decision(DecisionRecord{});
  EXPECT_EQ(stats.summary().clock_changes, 1);
}

TEST(RunStatistics, AnOutcomeWithoutItsArrivalIsABrokenInvariant) {
  RunStatistics stats(Slo{});
  stats.outcome(finished(1, Span::ms(1), Span::ms(2), 2, 1));
  EXPECT_DEATH(static_cast<void>(stats.summary()), "add_arrivals");
}

TEST(RunStatistics, JainOverTenants) {
  RunStatistics stats(slo_ttft());
  stats.add_arrivals(4);
  for (std::int64_t i = 0; i < 4; ++i) {  // tenant 0: both attain; tenant 1: one of two
    Outcome o = finished(i, i == 3 ? Span::ms(200) : Span::ms(10), Span::ms(300), 2, 1);
    o.request.tenant = TenantId(i < 2 ? 0 : 1);
    stats.outcome(o);
  }
  EXPECT_DOUBLE_EQ(stats.summary().fairness_jain, 1.5 * 1.5 / (2 * 1.25));
}

TEST(RunStatistics, JainOverQuartilesOfOutputLength) {
  RunStatistics stats(slo_ttft());
  stats.add_arrivals(40);
  for (std::int64_t i = 0; i < 40; ++i) {  // the longest quarter misses
    stats.outcome(
        finished(i, i >= 30 ? Span::ms(200) : Span::ms(10), Span::s(30), static_cast<std::int32_t>(2 + i), 0));
  }
  EXPECT_DOUBLE_EQ(stats.summary().fairness_jain, 9.0 / (4 * 3.0));
}

TEST(RunStatistics, CurvesEndAtOneAndAscend) {
  RunStatistics stats(slo_all());
  RandomStream random(7, "curves");
  stats.add_arrivals(20'000);
  for (std::int64_t i = 0; i < 20'000; ++i) {
    const Span ttft = Span::from_seconds(0.05 * random.exponential());
    stats.outcome(finished(i, ttft, ttft + Span::from_seconds(random.exponential()), 20, 19));
  }
  const RunCurves curves = stats.curves();
  ASSERT_FALSE(curves.ttft.empty());
  EXPECT_LT(curves.ttft.size(), 600U);
  EXPECT_DOUBLE_EQ(curves.ttft.back().second, 1.0);
  EXPECT_DOUBLE_EQ(curves.ttft.back().first, stats.summary().ttft.max_ms);
  for (std::size_t i = 1; i < curves.e2e.size(); ++i) {
    EXPECT_GT(curves.e2e[i].first, curves.e2e[i - 1].first);
    EXPECT_GT(curves.e2e[i].second, curves.e2e[i - 1].second);
  }
  EXPECT_TRUE(curves.itl.empty());
  const auto back = curves_from_json(to_json(curves), "here");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->ttft, curves.ttft);
}

TEST(RunSummary, JsonHasTheContractsKeysAndRoundTrips) {
  RunStatistics stats(slo_all());
  stats.add_arrivals(3);
  stats.outcome(finished(1, Span::ms(10), Span::ms(300), 21, 20));
  stats.outcome(finished(2, Span::ms(30), Span::ms(400), 31, 30));
  stats.add_gap(Span::ms(12), 50, 50);
  RunSummary s = stats.summary();
  s.recipe = "eco-freq";
  s.energy = {Joules(100.5), Joules(80.25), Joules(20.25), Joules(30), Joules(50.25), Joules(0), Joules(5)};
  s.meters = "emulated";
  s.by_tenant.push_back({"a/b \"c\"", 3, 1, 10, 20, Joules(7), GramsCo2(std::nan("")), Usd(0.5)});
  s.by_site.push_back({"north", 0, 0, 0, 0, Joules(100.5), GramsCo2(1.5), Usd(0.25)});
  s.carbon = GramsCo2(1.5);
  s.cost = Usd(0.25);
  s.mean_gpus = 4;
  s.idle_power = Watts(210.5);
  s.clock_mean_mhz = 1100.5;
  s.clock_changes = 12;
  s.sim = {2.0, 0.01, 1000, 300, 1 << 20};
  s.journal_digest = 0x00ab54a98ceb1f0a;
  s.derive();
  EXPECT_DOUBLE_EQ(s.tokens_per_joule, 52 / 100.5);
  EXPECT_DOUBLE_EQ(s.mean_power.value(), 50.25);

  const auto json = to_json(s);
  const char* contract = R"({"recipe": "", "requests": {"arrived": 0, "finished": 0, "rejected": 0, "failed": 0,
    "in_flight": 0, "preempted": 0}, "tokens": {"prompt": 0, "output": 0}, "energy_j": {"total": 0, "busy": 0, "idle": 0,
    "prefill": 0, "decode": 0}, "carbon_g": 0, "cost_usd": 0, "tokens_per_joule": 0, "mean_power_w": 0, "mean_gpus": 0,
    "slo": {"ttft_attainment": 0, "itl_attainment": 0, "tbt_attainment": 0, "e2e_attainment": 0, "attainment": 0},
    "ttft_ms": {"mean": 0, "p50": 0, "p90": 0, "p99": 0}, "itl_ms": {"mean": 0, "p50": 0, "p90": 0, "p99": 0},
    "tbt_ms": {"mean": 0, "p50": 0, "p90": 0, "p99": 0}, "e2e_ms": {"mean": 0, "p50": 0, "p90": 0, "p99": 0},
    "queue_ms": {"mean": 0, "p50": 0, "p90": 0, "p99": 0}, "clock_mhz": {"mean": 0, "changes": 0}, "fairness_jain": 0,
    "sim": {"virtual_s": 0, "wall_s": 0, "iterations": 0, "events": 0, "peak_rss_bytes": 0}, "journal_digest": ""})";
  const auto keys = nlohmann::ordered_json::parse(contract).flatten();
  for (const auto& [pointer, value] : keys.items()) {
    EXPECT_TRUE(json.contains(nlohmann::ordered_json::json_pointer(pointer))) << pointer;
  }
  EXPECT_EQ(json["journal_digest"], "00ab54a98ceb1f0a");

  const auto back = summary_from_json(nlohmann::ordered_json::parse(json.dump()), "here");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(to_json(*back), json);
  EXPECT_EQ(back->by_tenant.at(0).name, "a/b \"c\"");
  EXPECT_TRUE(json["by_tenant"]["a/b \"c\""]["carbon_g"].is_null()) << "unknown, not 0";
}

TEST(RunSummary, UnknownEnergyIsNullAndStaysUnknown) {
  RunSummary s;
  s.tokens.output = 5;
  s.sim.virtual_s = 1.0;
  s.energy.total = Joules(std::nan(""));
  s.derive();
  const auto json = to_json(s);
  for (const char* key : {"/energy_j/total", "/tokens_per_joule", "/mean_power_w"}) {
    EXPECT_TRUE(json[nlohmann::ordered_json::json_pointer(key)].is_null()) << key;
  }
  const auto back = summary_from_json(json, "here");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_TRUE(std::isnan(back->energy.total.value()));
}

TEST(RunSummary, TokensPerJouleOfNoJouleIsUnknown) {
  RunSummary s;
  s.sim.virtual_s = 1.0;
  s.derive();
  EXPECT_TRUE(std::isnan(s.tokens_per_joule));
  EXPECT_EQ(s.mean_power.value(), 0.0);
}

TEST(RunSummary, WhatNothingWasServedOfIsNullAndNotPerfect) {
  RunStatistics stats(slo_all());
  stats.add_arrivals(1);
  Outcome rejected;
  rejected.fate = Fate::Rejected;
  stats.outcome(rejected);
  const auto summary = stats.summary();
  EXPECT_EQ(summary.slo.all, 0.0);
  const auto json = to_json(summary);
  for (const char* key : {"/slo/itl_attainment", "/ttft_ms/p99", "/itl_ms/mean", "/e2e_ms/max", "/fairness_jain"}) {
    EXPECT_TRUE(json[nlohmann::ordered_json::json_pointer(key)].is_null()) << key;
  }
  const auto back = summary_from_json(nlohmann::ordered_json::parse(json.dump()), "here");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_TRUE(std::isnan(back->slo.itl));
  EXPECT_EQ(to_json(*back), json);
  const auto nothing = RunStatistics(slo_all()).summary();
  EXPECT_TRUE(std::isnan(nothing.slo.all)) << "nobody came";
}

TEST(RunSummary, BadJsonNamesTheKey) {
  auto json = to_json(RunSummary{});
  const auto problem = [](const nlohmann::ordered_json& j) {
    const auto read = summary_from_json(j, "run.json");
    return read ? std::string("accepted") : read.error().message();
  };
  EXPECT_EQ(problem(json), "accepted");
  auto changed = json;
  changed["energy_j"].erase("idle");
  EXPECT_EQ(problem(changed), "run.json: key energy_j.idle is missing");
  changed = json;
  changed["requests"]["arrived"] = -3;
  EXPECT_EQ(problem(changed), "run.json: key requests.arrived must be a whole number >= 0");
  changed = json;
  changed["carbon_g"] = "much";
  EXPECT_EQ(problem(changed), "run.json: key carbon_g must be a number");
  changed = json;
  changed["journal_digest"] = "xyz";
  EXPECT_EQ(problem(changed), "run.json: key journal_digest must be a string of 16 hexadecimal digits");
  changed = json;
  changed["invented_later"] = 5;
  EXPECT_EQ(problem(changed), "accepted");
}

TEST(DigestSink, EveryFieldCounts) {
  const auto digest = [](auto&& change_decision, auto&& change_outcome) {
    DigestSink sink;
    DecisionRecord d{
        .at = Instant(5), .kind = DecisionKind::Clock, .instance = InstanceId(1), .value = 7, .reason = "r"};
    Outcome o = finished(1, Span::ms(10), Span::ms(300), 21, 20);
    change_decision(d);
    change_outcome(o);
    sink.decision(d);
    sink.outcome(o);
    return sink.value();
  };
  const auto same_d = [](DecisionRecord&) {};
  const auto same_o = [](Outcome&) {};
  const std::uint64_t base = digest(same_d, same_o);
  EXPECT_EQ(base, digest(same_d, same_o));
  const std::string equal_text = "r";  // another address, same text
  EXPECT_EQ(base, digest([&](DecisionRecord& d) { d.reason = equal_text.c_str(); }, same_o));
  const std::vector<void (*)(DecisionRecord&)> decisions = {[](DecisionRecord& d) { d.at = Instant(6); },
                                                            [](DecisionRecord& d) { d.kind = DecisionKind::Admission; },
                                                            [](DecisionRecord& d) { d.mode = Mode::Shadow; },
                                                            [](DecisionRecord& d) { d.request = RequestId(3); },
                                                            [](DecisionRecord& d) { d.instance = InstanceId(2); },
                                                            [](DecisionRecord& d) { d.value = 8; },
                                                            [](DecisionRecord& d) { d.reason = "s"; }};
  for (const auto& change : decisions) EXPECT_NE(base, digest(change, same_o));
  const std::vector<void (*)(Outcome&)> outcomes = {[](Outcome& o) { o.request.id = RequestId(9); },
                                                    [](Outcome& o) { o.request.arrival += Span::ns(1); },
                                                    [](Outcome& o) { o.request.prompt_tokens++; },
                                                    [](Outcome& o) { o.request.max_tokens++; },
                                                    [](Outcome& o) { o.request.predicted_output_tokens++; },
                                                    [](Outcome& o) { o.request.tenant = TenantId(4); },
                                                    [](Outcome& o) { o.fate = Fate::Failed; },
                                                    [](Outcome& o) { o.reason = "why"; },
                                                    [](Outcome& o) { o.dispatched += Span::ns(1); },
                                                    [](Outcome& o) { o.prefill_start += Span::ns(1); },
                                                    [](Outcome& o) { o.first_token += Span::ns(1); },
                                                    [](Outcome& o) { o.left += Span::ns(1); },
                                                    [](Outcome& o) { o.output_tokens++; },
                                                    [](Outcome& o) { o.preemptions++; },
                                                    [](Outcome& o) { o.prefill_instance = InstanceId(1); },
                                                    [](Outcome& o) { o.decode_instance = InstanceId(1); },
                                                    [](Outcome& o) { o.energy += Picojoules(1); },
                                                    [](Outcome& o) { o.energy += Picojoules(Int128{1} << 64); },
                                                    [](Outcome& o) { o.carbon += GramsCo2(1e-9); },
                                                    [](Outcome& o) { o.gaps_within_itl--; },
                                                    [](Outcome& o) { o.cached_prompt_tokens++; }};
  for (const auto& change : outcomes) EXPECT_NE(base, digest(same_d, change));
}

TEST(Tee, HandsEveryRecordToEachSink) {
  DigestSink a;
  DigestSink b;
  Tee tee({&a, &b});
  const std::uint64_t empty = a.value();
  tee.decision({});
  tee.outcome({});
  EXPECT_NE(a.value(), empty);
  EXPECT_EQ(a.value(), b.value());
}

}  // namespace
}  // namespace wattle::journal
