#include "policy/routing/best_batch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

namespace wattle::policy::best_batch_test {
namespace {

constexpr MegaHertz kLow{1000};
constexpr MegaHertz kHigh{1400};
constexpr std::int64_t kContext = 100;

/// 10 ms, and as long again for every hundred requests or thousand prompt tokens; at the high clock a fifth less.
class Times final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const double low = 10.0 + 0.1 * shape.decode_requests + 1e-5 * static_cast<double>(shape.decode_kv_tokens) +
                       1e-2 * static_cast<double>(shape.prefill_tokens);
    return Span::from_seconds(1e-3 * low * (clock == kHigh ? 0.8 : 1.0));
  }
};

/// 100 W idle; 200 W at the low clock, `high` at the high one, whatever the batch.
class Draws final : public PowerModel {
 public:
  explicit Draws(double high) : high_(high) {}
  [[nodiscard]] Milliwatts step_power(const StepShape& shape, MegaHertz clock) const override {
    return Milliwatts(static_cast<std::int64_t>(1e3 * (shape.idle() ? 100.0 : clock == kHigh ? high_ : 200.0)));
  }

 private:
  double high_;
};

class Fleet {
 public:
  explicit Fleet(std::vector<std::int32_t> requests, double high_watts = 250.0) : draws(high_watts) {
    InstanceSpec& spec = specs.emplace_back();
    spec.role = Role::Decode;
    spec.slo.itl = Span::ms(25);
    spec.beliefs.latency = &times;
    spec.beliefs.power = &draws;
    views.resize(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      views[i].id = InstanceId{static_cast<std::int32_t>(i)};
      views[i].spec = &spec;
      views[i].telemetry = Telemetry::Fresh;
      views[i].clock_commanded = kLow;
      put(i, requests[i]);
    }
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  void put(std::size_t i, std::int32_t requests, std::int64_t context = kContext) {
    views[i].assigned_requests = requests;
    views[i].assigned_prompt_tokens = requests * context;
    views[i].step.shape.decode_requests = requests;
    views[i].step.shape.decode_kv_tokens = requests * context;
  }
  std::int32_t route(BestBatch& policy, Instant now = Instant{}) {
    std::vector<const InstanceView*> candidates;
    for (const InstanceView& view : views) candidates.push_back(&view);
    RandomStream random(1, "test");
    Request request;
    request.prompt_tokens = prompt;
    const RouteDecision decision = policy.route(request, candidates, now, random);
    reason = decision.reason;
    return decision.instance.value();
  }
  /// Routes so many requests one after the other; returns the resulting batches.
  std::vector<std::int32_t> fill(BestBatch& policy, int requests, Span apart = Span()) {
    for (int n = 0; n < requests; ++n) {
      const auto to = static_cast<std::size_t>(route(policy, Instant{} + Span(n * apart.ns())));
      put(to, views[to].assigned_requests + 1);
    }
    std::vector<std::int32_t> batches;
    for (const InstanceView& view : views) batches.push_back(view.assigned_requests);
    return batches;
  }
  /// The newest first token came after `wait`, with 1 s of its objective of 2 s left before.
  void handed_over(BestBatch& policy, Span wait, int times_over = 1) {
    specs.front().slo.ttft = Span::s(2);
    (void)route(policy);  // it looks at instances then
    for (int i = 0; i < times_over; ++i) {
      policy.observe(event::HandedOver{Request{}, views.front(), Span::s(1), wait}, Instant{});
    }
  }

  Times times;
  Draws draws;
  std::deque<InstanceSpec> specs;
  std::vector<InstanceView> views;
  std::string reason;
  std::int32_t prompt = kContext - 1;  ///< of the next requests
};

BestBatch policy(std::vector<MegaHertz> clocks = {kLow, kHigh}, BestBatchOptions options = {.overload_margin = 0.0}) {
  return {options, ClocksOfInstances{.clocks = {clocks.begin(), clocks.end()}}};
}

using Batches = std::vector<std::int32_t>;

/// Prompts and decodes share steps.
void colocate(Fleet& fleet) {
  fleet.specs.front().role = Role::Colocated;
  fleet.specs.front().slo.ttft = Span::ms(200);
}

// 25 ms hold (25 - 10) / 0.101 = 148 requests at the low clock and (31.25 - 10) / 0.101 = 210 at the high one: 100 W x
// 25 ms / 148 a token, and 150 x 25 / 210, which is more.
TEST(BestBatch, FillsOneInstanceAfterTheOtherUpToTheBatchOfLeastEnergy) {
  BestBatch fills = policy();
  EXPECT_EQ(Fleet({0, 0, 0}).fill(fills, 140), (Batches{140, 0, 0}));
  EXPECT_EQ(Fleet({0, 0, 0}).fill(fills, 160), (Batches{148, 12, 0}));
  EXPECT_EQ(Fleet({0, 9, 10, 0}).fill(fills, 100), (Batches{0, 9, 110, 0})) << "the fullest; the others may empty";
}

TEST(BestBatch, WhereAHigherClockIsCheapItsBatchIsTheBest) {
  BestBatch fills = policy();
  EXPECT_EQ(Fleet({0, 0}, 220.0).fill(fills, 250), (Batches{210, 40}));
  BestBatch low = policy({kLow});
  EXPECT_EQ(Fleet({0, 0}, 220.0).fill(low, 200), (Batches{148, 52}));
}

TEST(BestBatch, WhereItFitsNowhereTheLeastFullTakesIt) {
  BestBatch fills = policy();
  Fleet fleet({160, 150, 155});
  EXPECT_EQ(fleet.route(fills), 1);
  EXPECT_EQ(fleet.reason, "fits nowhere: the least full");
  EXPECT_EQ(Fleet({0, 0}).fill(fills, 400), (Batches{200, 200}));
}

TEST(BestBatch, KeepsAReserveOfTheObjectiveTheLargerOfItsOwnAndEcoFreqs) {
  BestBatch own = policy({kLow}, {.overload_margin = 0.2});
  EXPECT_EQ(Fleet({0, 0}).fill(own, 120), (Batches{99, 21})) << "(20 - 10) / 0.101";
  BestBatch ecos({.overload_margin = 0.0}, ClocksOfInstances{.clocks = {ClockSetting(kLow)}, .margin = 0.4});
  EXPECT_EQ(Fleet({0, 0}).fill(ecos, 60), (Batches{49, 11})) << "(15 - 10) / 0.101";
}

TEST(BestBatch, TheMeanGapBoundsABatchToo) {
  BestBatch low = policy({kLow});
  Fleet fleet({0, 0});
  fleet.specs.front().slo.tbt = Span::ms(20);
  EXPECT_EQ(fleet.fill(low, 120), (Batches{99, 21})) << "(20 - 10) / 0.101";
}

/// Its steps take this many times as long as predicted.
void slow(InstanceView& view, double times) {
  for (int step = 0; step < 100; ++step) view.pace.measured(times, kHigh, Instant{});
}

TEST(BestBatch, AnInstanceThatIsSlowerThanItsKindGetsWhatItCanStepInTime) {
  BestBatch fills = policy({kLow});
  Fleet fleet({0, 0, 0});
  slow(fleet.views[0], 1.25);
  EXPECT_EQ(fleet.fill(fills, 300), (Batches{4, 148, 148})) << "the others first";
  EXPECT_EQ(fleet.fill(fills, 110), (Batches{114, 148, 148})) << "(25 / 1.25 - 10) / 0.101 = 99, then evenly";
  BestBatch careful = policy({kLow}, {.overload_margin = 0.2});
  Fleet covered({0, 0});
  slow(covered.views[0], 1.2);
  EXPECT_EQ(covered.fill(careful, 120), (Batches{99, 21})) << "the reserve covers it";
  EXPECT_EQ(covered.route(careful, Instant{} + Span::s(61)), 1) << "99 are all that fits";
}

TEST(BestBatchColocated, PromptsWaitForNoSlowInstance) {
  BestBatch fills = policy();
  Fleet fleet({10, 5});
  colocate(fleet);
  EXPECT_EQ(fleet.route(fills), 0) << "the fullest";
  slow(fleet.views[0], 4.0);
  EXPECT_EQ(fleet.route(fills), 1);
  EXPECT_EQ(fleet.route(fills, Instant{} + Span::s(60)), 0) << "nobody has measured it for a minute";
}

TEST(BestBatch, ClocksThatAreNotEcoFreqsStayAsCommanded) {
  BestBatch fills = policy({});
  Fleet fleet({0, 0});
  for (InstanceView& view : fleet.views) view.clock_commanded = kHigh;
  EXPECT_EQ(fleet.fill(fills, 250), (Batches{210, 40}));
}

TEST(BestBatch, TheKvCacheBoundsABatchAndSoDoLongContexts) {
  BestBatch fills = policy();
  Fleet small({0, 0});
  small.specs.front().kv_capacity_tokens = 7'150;
  EXPECT_EQ(small.fill(fills, 60), (Batches{50, 10})) << "0.7 x 7,150 / 100";
  Fleet uneven({0, 100});
  uneven.put(0, 110, 5'000);  // 10 + 11 + 5.5 ms at the low clock, beyond the limit at the high one from 32 ms on
  EXPECT_EQ(uneven.route(fills), 0);
  uneven.put(0, 110, 10'000);
  EXPECT_EQ(uneven.route(fills), 1) << "32.1 x 0.8 = 25.7 ms";
}

/// So many answers of this length end.
void ended(BestBatch& policy, int answers, std::int32_t tokens) {
  Outcome outcome;
  outcome.output_tokens = tokens;
  for (int i = 0; i < answers; ++i) policy.observe(event::Left{outcome}, Instant{});
}

TEST(BestBatch, ContextsGrowByAnAnswer) {
  Fleet fleet({80, 0});
  fleet.put(0, 80, 3 * kContext);
  fleet.views[0].assigned_prompt_tokens = 80 * kContext;  // 200 tokens each so far
  BestBatch fills = policy({kLow});
  EXPECT_EQ(fleet.route(fills), 1) << "none has ended: (25 - 10) / 0.26 requests at 16,000 tokens";
  ended(fills, 200, 10);
  EXPECT_EQ(fleet.route(fills), 0) << "answers of 90 tokens; contexts are longer already: (25 - 10) / 0.103";
  BestBatch longer = policy({kLow});
  ended(longer, 200, 10'000);
  EXPECT_EQ(fleet.route(longer), 1) << "answers of 10,030 tokens: (25 - 10) / 0.2";
}

TEST(BestBatch, ALoadThatFillsAllInstancesIsSpread) {
  // Two batches of 148 in 25 ms are 11,840 tokens a second; requests need 100 each.
  const auto batches = [&](Span apart) {
    BestBatch fills = policy({kLow});
    ended(fills, 500, 100);
    return Fleet({0, 0}).fill(fills, 101, apart);
  };
  EXPECT_EQ(batches(Span::ms(10)), (Batches{101, 0}));
  EXPECT_EQ(batches(Span::ms(8)), (Batches{51, 50})) << "12,500";
}

TEST(BestBatch, TheCheaperKindIsFilledFirst) {
  BestBatch fills = policy({kLow});
  Fleet fleet({0, 0, 0});
  class Twice final : public PowerModel {
   public:
    [[nodiscard]] Milliwatts step_power(const StepShape& shape, MegaHertz) const override {
      return Milliwatts(shape.idle() ? 100'000 : 300'000);
    }
  } twice;
  InstanceSpec& costly = fleet.specs.emplace_back(fleet.specs.front());
  costly.beliefs.power = &twice;
  fleet.views[0].spec = &costly;
  fleet.put(0, 20);
  EXPECT_EQ(fleet.fill(fills, 300), (Batches{24, 148, 148})) << "though it has some already";
}

// The instance has 49 requests: 14.949 ms. A first token that had 1 s left and waited w would have borne 14.949 / w.
TEST(BestBatch, FirstTokensThatWaitForStepsBoundThem) {
  BestBatch fills = policy({kLow}, {.overload_margin = 0.0, .late_handovers = 0.01});
  Fleet fleet({49, 0});
  fleet.handed_over(fills, Span::ms(500), 200);
  EXPECT_EQ(fleet.route(fills), 0) << "29.9 ms";
  fleet.handed_over(fills, Span::ms(1000), 2);
  EXPECT_EQ(fleet.route(fills), 0) << "2 of 202 may be late";
  fleet.handed_over(fills, Span::ms(1000), 2);
  EXPECT_EQ(fleet.route(fills), 1) << "no step longer than 14.949 ms";
  BestBatch any = policy({kLow}, {.overload_margin = 0.0, .late_handovers = 0.0});
  fleet.handed_over(any, Span::ms(1000), 100);
  EXPECT_EQ(fleet.route(any), 0) << "not looked at";
}

TEST(BestBatch, WhatWouldBeLateAnywayBoundsNothing) {
  BestBatch fills = policy({kLow});
  Fleet fleet({49, 0});
  fleet.handed_over(fills, Span::ms(5000), 100);
  EXPECT_EQ(fleet.route(fills), 0) << "2.99 ms: no batch has such steps";
  BestBatch fresh = policy({kLow});
  fleet.specs.front().slo.ttft = Span::s(2);
  fresh.observe(event::HandedOver{Request{}, fleet.views.front(), Span::s(3), Span::ms(1)}, Instant{});
  EXPECT_EQ(fleet.route(fresh), 0) << "late before it was handed over";
}

TEST(BestBatch, AKindThatIsGoneIsForgotten) {
  BestBatch fills = policy({kLow});
  Fleet fleet({49, 0});
  fleet.handed_over(fills, Span::ms(1000), 100);
  ASSERT_EQ(fleet.route(fills), 1);
  fills.observe(event::Gone{fleet.views[1]}, Instant{});
  EXPECT_EQ(fleet.route(fills), 0);
}

TEST(BestBatch, WithoutBeliefsOrAnObjectiveTheFewestRequests) {
  BestBatch fills = policy();
  Fleet unbelieved({3, 2, 2});
  unbelieved.specs.front().beliefs = {};
  EXPECT_EQ(unbelieved.route(fills), 1);
  Fleet unbound({3, 2, 2});
  unbound.specs.front().slo = {};
  EXPECT_EQ(unbound.route(fills), 1);
  Fleet hopeless({3, 2, 2});
  hopeless.specs.front().slo.itl = Span::ms(5);
  EXPECT_EQ(hopeless.route(fills), 1);
}

RC_GTEST_PROP(BestBatch, NoneIsFilledBeyondItsObjectiveWhileAnotherIsWithin, ()) {
  const auto size = *rc::gen::inRange<std::size_t>(1, 6);
  Fleet fleet(std::vector<std::int32_t>(size, 0), *rc::gen::inRange(201, 500));
  for (std::size_t i = 0; i < size; ++i) {
    fleet.put(i, *rc::gen::inRange(0, 300), *rc::gen::inRange<std::int64_t>(1, 3'000));
    fleet.views[i].step.waiting_requests = *rc::gen::inRange(0, 3);
    fleet.views[i].assigned_requests += fleet.views[i].step.waiting_requests;
  }
  BestBatch fills = policy();
  const auto with_one_more = [&](const InstanceView& view) {
    StepShape shape = view.step.shape;
    shape.decode_requests += 1 + view.step.waiting_requests;
    shape.decode_kv_tokens += kContext;
    return fleet.times.step_time(shape, kHigh);
  };
  const auto to = static_cast<std::size_t>(fleet.route(fills));
  RC_ASSERT(to < size);
  if (fleet.reason == "fits nowhere: the least full") return;
  RC_ASSERT(with_one_more(fleet.views[to]) <= Span::ms(25));
}

RC_GTEST_PROP(BestBatch, OfThoseWithRoomTheFullest, ()) {
  const auto requests = *rc::gen::container<std::vector<std::int32_t>>(rc::gen::inRange(0, 300));
  RC_PRE(!requests.empty());
  Fleet fleet(requests);
  BestBatch fills = policy();
  const std::int32_t to = requests[static_cast<std::size_t>(fleet.route(fills))];
  constexpr std::int32_t kBest = 148;
  std::int32_t expected = -1;
  for (const std::int32_t has : requests) {
    if (has < kBest) expected = std::max(expected, has);
  }
  RC_ASSERT(to == (expected >= 0 ? expected : std::ranges::min(requests)));
}

// With a prompt of 99 tokens a step takes 0.8 x (10 + 0.1 x n + 1) ms at the high clock: never late with 148 requests.
TEST(BestBatchColocated, FillsAnInstanceAsLongAsPromptsDisturbNoDecode) {
  BestBatch fills = policy();
  Fleet fleet({0, 0, 0});
  colocate(fleet);
  EXPECT_EQ(fleet.fill(fills, 160), (Batches{148, 12, 0}));
}

TEST(BestBatchColocated, SpreadsPromptsWithWhichAStepIsLate) {
  BestBatch fills = policy();
  Fleet fleet({0, 0, 0});
  colocate(fleet);
  fleet.prompt = 2200;  // 0.8 x 32 ms and more
  EXPECT_EQ(fleet.fill(fills, 3), (Batches{1, 1, 1}));
  EXPECT_EQ(fleet.reason, "fits into the batch of least energy") << "on an idle instance it disturbs nobody";
  EXPECT_EQ(fleet.fill(fills, 3), (Batches{2, 2, 2}));
  EXPECT_EQ(fleet.reason, "the fewest prompt tokens to compute");
  Fleet by_mean({0, 0, 0});
  colocate(by_mean);
  by_mean.specs.front().slo.tbt = Span::ms(15);
  by_mean.prompt = 1400;  // 0.8 x 24 ms and more
  EXPECT_EQ(by_mean.fill(fills, 6), (Batches{2, 2, 2}));
}

TEST(BestBatchColocated, LongPromptsOfOthersLimitHowManyTheyMayDisturb) {
  const auto filled = [](int one_in, double answer) {
    BestBatch fills = policy();
    Fleet fleet({0, 0, 0, 0});
    colocate(fleet);
    Outcome outcome;
    outcome.fate = Fate::Finished;
    outcome.output_tokens = static_cast<std::int32_t>(answer);
    for (int i = 0; i < 600; ++i) fills.observe(event::Left{outcome}, Instant{});
    for (int i = 0; i < 600; ++i) {
      fleet.prompt = i % one_in == 0 ? 2200 : 99;
      (void)fleet.route(fills);
    }
    fleet.prompt = 99;
    return fleet.fill(fills, 40);
  };
  EXPECT_EQ(filled(1000, 100), (Batches{40, 0, 0, 0})) << "the one long prompt is forgotten";
  // One in ten, answers of 1,000 tokens: 0.1 x 50 gaps of 1,000 are late at 50 requests beyond the even share.
  EXPECT_EQ(filled(10, 1000), (Batches{40, 0, 0, 0}));
  const Batches few = filled(10, 100);
  EXPECT_LE(few[0], 16) << "0.1 x 5 of 100 at 5 beyond the even share, which is at most 10";
  EXPECT_GE(few[0], 6);
}

TEST(BestBatchColocated, WaitsForNoPromptsThatWouldCostTheFirstToken) {
  BestBatch fills = policy();
  Fleet fleet({20, 0});
  colocate(fleet);
  EXPECT_EQ(fleet.route(fills), 0);
  fleet.specs.front().slo.itl = Span::s(1);
  EXPECT_EQ(fleet.route(fills), 0);
  fleet.views[0].unanswered_prompt_tokens = 12'000;  // more than 0.8 x 120 of the 200 ms
  EXPECT_EQ(fleet.route(fills), 1);
}

TEST(BestBatchColocated, KnowsOverHowManyStepsAPromptIsComputed) {
  BestBatch fills = policy();
  Fleet fleet({100, 0});
  colocate(fleet);
  fleet.prompt = 300;
  EXPECT_EQ(fleet.route(fills), 0);
  fleet.specs.front().max_step_tokens = 130;  // 30 beside the decodes: ten steps of 17 ms
  EXPECT_EQ(fleet.route(fills), 1);
  fleet.prompt = 99;  // four
  EXPECT_EQ(fleet.route(fills), 0);
  fleet.specs.front().decode_tokens = 2;  // with drafts, none
  EXPECT_EQ(fleet.route(fills), 1);
}

TEST(BestBatchColocated, WherePromptsAreComputedAloneAllTheirStepsMakeOneGap) {
  BestBatch fills = policy();
  Fleet fleet({20, 0});
  colocate(fleet);
  fleet.prompt = 300;  // 0.8 x 13 ms, and 0.8 x 12 of decodes
  fleet.specs.front().decode_tokens = 0;
  EXPECT_EQ(fleet.route(fills), 0);
  fleet.specs.front().max_step_tokens = 100;  // 0.8 x 33 ms
  EXPECT_EQ(fleet.route(fills), 1);
  fleet.specs.front().decode_tokens = 1;
  EXPECT_EQ(fleet.route(fills), 0);
}

TEST(BestBatch, NoEngineGetsMoreThanItRunsAtOnce) {
  for (const Role role : {Role::Colocated, Role::Decode}) {
    BestBatch fills = policy();
    Fleet fleet({0, 0, 0});
    if (role == Role::Colocated) colocate(fleet);
    fleet.specs.front().max_requests = 30;
    EXPECT_EQ(fleet.fill(fills, 70), (Batches{30, 30, 10}));
    EXPECT_EQ(fleet.fill(fills, 25), (Batches{32, 32, 31})) << "all are full: spread";
  }
}

TEST(BestBatchColocated, SpreadsWhatHasAnEndToEndObjectiveAndWithoutBeliefs) {
  BestBatch fills = policy();
  Fleet late({0, 0, 0});
  colocate(late);
  late.specs.front().slo.e2e = Span::s(10);
  EXPECT_EQ(late.fill(fills, 6), (Batches{2, 2, 2}));
  Fleet unknown({0, 0, 0});
  colocate(unknown);
  unknown.specs.front().beliefs = {};
  EXPECT_EQ(unknown.fill(fills, 6), (Batches{2, 2, 2}));
}

TEST(BestBatchColocated, SpreadsPromptsOverPrefillInstances) {
  BestBatch fills = policy();
  Fleet fleet({0, 0, 0});
  fleet.specs.front().role = Role::Prefill;
  EXPECT_EQ(fleet.fill(fills, 6), (Batches{2, 2, 2}));
}

}  // namespace
}  // namespace wattle::policy::best_batch_test
