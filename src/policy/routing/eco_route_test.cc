#include "policy/routing/eco_route.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/frequency/eco_freq.h"

namespace wattle::policy::eco_route_test {
namespace {

constexpr MegaHertz kLow{1005};
constexpr MegaHertz kHigh{1410};

/// A clock c serves up to `borders[c]` requests and `kv[c]` KV tokens (unlimited where absent) within 60 ms.
class Limits final : public LatencyModel {
 public:
  explicit Limits(std::map<MegaHertz, std::int32_t> borders, std::map<MegaHertz, std::int64_t> kv = {})
      : borders_(std::move(borders)), kv_(std::move(kv)) {}
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const auto border = borders_.find(clock);
    const auto kv = kv_.find(clock);
    const bool enough = (border == borders_.end() || shape.decode_requests <= border->second) &&
                        (kv == kv_.end() || shape.decode_kv_tokens <= kv->second);
    return Span::ms(enough ? 50 : 70);
  }

 private:
  std::map<MegaHertz, std::int32_t> borders_;
  std::map<MegaHertz, std::int64_t> kv_;
};

struct Routed {
  std::int32_t to;
  std::string reason;
  bool operator==(const Routed&) const = default;
};

/// Decode instances with batches that have arrived and been reported.
class Fleet {
 public:
  Fleet(Fleet&&) = default;
  Fleet& operator=(Fleet&&) = default;
  Fleet(const LatencyModel& model, std::vector<MegaHertz> clocks, std::vector<std::int32_t> requests)
      : views(requests.size()) {
    how.clocks.assign(clocks.begin(), clocks.end());
    options.spare_overloaded = false;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      specs.push_back(spec(&model));
      views[i].id = InstanceId{static_cast<std::int32_t>(i)};
      views[i].spec = &specs.back();
      views[i].telemetry = Telemetry::Fresh;
      put(i, requests[i]);
    }
  }
  static InstanceSpec spec(const LatencyModel* latency) {
    InstanceSpec made;
    made.role = Role::Decode;
    made.slo.itl = Span::ms(60);
    made.beliefs.latency = latency;
    return made;
  }
  /// A policy that has observed all joined instances.
  [[nodiscard]] EcoRoute policy() const {
    EcoRoute made(options, how);
    for (std::size_t i = 0; i < std::min(joined, views.size()); ++i) made.observe(event::Joined{views[i]}, {});
    return made;
  }
  /// Objectives are this, aimed at 60 ms; the limit is 1 - overload_margin of it.
  void aim_below(Span itl) {
    for (auto& instance : specs) instance.slo.itl = itl;
    how.margin = 1.0 - 60.0 / itl.millis();
  }
  void put(std::size_t i, std::int32_t requests, std::int64_t kv_tokens = 0) {
    views[i].assigned_requests = views[i].step.shape.decode_requests = requests;
    views[i].step.shape.decode_kv_tokens = kv_tokens;
  }
  Routed route(EcoRoute& policy, std::int32_t prompt = 100) {
    std::vector<const InstanceView*> candidates;
    for (const auto& view : views) {
      if (view.accepting) candidates.push_back(&view);
    }
    Request request;
    request.prompt_tokens = prompt;
    const auto decision = policy.route(request, candidates, Instant{}, random);
    return {decision.instance.value(), decision.reason};
  }
  Routed route_once(std::int32_t prompt = 100) {
    EcoRoute made = policy();
    return route(made, prompt);
  }
  std::deque<InstanceSpec> specs;
  std::vector<InstanceView> views;
  EcoRouteOptions options;
  ClocksOfInstances how;
  std::size_t joined = 1000;  ///< so many at most
  RandomStream random{7, "test"};
};

const char* const kTurn = "1a: all clocks equal: its turn";
const char* const kLowest = "1b: none rises: lowest clock";
const char* const kStays = "2a: some rise: lowest clock that stays";
const char* const kWideAfter = "2b: wide spread: lowest resulting clock";
const char* const kWideNow = "2b: wide spread: lowest current clock";
const char* const kAllRise = "3: all rise: lowest resulting clock";

Limits at_256() { return Limits({{kLow, 256}}); }

TEST(EcoRoute, Case1aAllEqualTakesTurns) {
  const auto model = at_256();
  Fleet low(model, {kLow, kHigh}, {100, 200});
  EcoRoute policy = low.policy();
  EXPECT_EQ(low.route(policy), (Routed{0, kTurn}));
  EXPECT_EQ(low.route(policy), (Routed{1, kTurn}));
  EXPECT_EQ(low.route(policy), (Routed{0, kTurn}));
  Fleet high(model, {kLow, kHigh}, {300, 400});
  EXPECT_EQ(high.route_once(), (Routed{0, kTurn}));
}

TEST(EcoRoute, Case1bGoesToTheLowestClockHoweverFull) {
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, {257, 255});
  EXPECT_EQ(fleet.route_once(), (Routed{1, kLowest})) << "255 + 1 stay within the border";
}

TEST(EcoRoute, Case2aSparesTheInstanceThatWouldRise) {
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, {256, 280});
  EXPECT_EQ(fleet.route_once(), (Routed{1, kStays}));
  Fleet three(model, {kLow, kHigh}, {256, 280, 100});
  EXPECT_EQ(three.route_once(), (Routed{2, kStays})) << "the lowest of those that stay";
}

TEST(EcoRoute, Case2bReadsAsEitherPaperDoes) {
  // Instance 0 rises from 1095 to 1200, 1 stays at 1410: the spread is 210 afterwards.
  const MegaHertz f2{1095};
  const MegaHertz f3{1200};
  const Limits model({{kLow, 64}, {f2, 128}, {f3, 192}});
  Fleet fleet(model, {kLow, f2, f3, MegaHertz{1305}, kHigh}, {128, 300});
  const Limits slow({{kLow, 64}, {f2, 128}, {f3, 192}, {MegaHertz{1305}, 256}});
  fleet.specs[1].beliefs.latency = &slow;
  fleet.options.max_spread = MegaHertz{210};
  EXPECT_EQ(fleet.route_once(), (Routed{1, kStays})) << "a spread of exactly delta is allowed";
  fleet.options.max_spread = MegaHertz{209};
  EXPECT_EQ(fleet.route_once(), (Routed{0, kWideAfter}));
  fleet.options.beyond_spread = BeyondSpread::LowestCurrent;
  EXPECT_EQ(fleet.route_once(), (Routed{0, kWideNow}));
}

TEST(EcoRoute, Case2bReadingsDisagreeWhereTheLowestWouldRiseFar) {
  // 0 would jump from 1005 to 1410; 1 stays at 1200; afterwards the spread is 210.
  const MegaHertz mid{1200};
  const Limits cliff({{kLow, 100}, {mid, 100}});
  const Limits steady({{kLow, 50}});
  Fleet fleet(cliff, {kLow, mid, kHigh}, {100, 80});
  fleet.specs[1].beliefs.latency = &steady;
  fleet.options.max_spread = MegaHertz{150};
  EXPECT_EQ(fleet.route_once(), (Routed{1, kWideAfter}));
  fleet.options.beyond_spread = BeyondSpread::LowestCurrent;
  EXPECT_EQ(fleet.route_once(), (Routed{0, kWideNow}));
}

TEST(EcoRoute, Case3TakesTheLowestResultingClock) {
  const MegaHertz mid{1200};
  const Limits gentle({{kLow, 128}});
  const Limits cliff({{kLow, 100}, {mid, 100}});
  Fleet fleet(cliff, {kLow, mid, kHigh}, {100, 128});
  fleet.specs[1].beliefs.latency = &gentle;
  EXPECT_EQ(fleet.route_once(), (Routed{1, kAllRise})) << "1200 rather than 1410";
}

TEST(EcoRoute, KvTokensCountAsRequestsDo) {
  const Limits model({}, {{kLow, 100'000}});
  Fleet fleet(model, {kLow, kHigh}, {10, 10});
  fleet.put(0, 10, 99'500);
  EXPECT_EQ(fleet.route_once(499), (Routed{0, kTurn})) << "499 and the token of its prefill just fit";
  EXPECT_EQ(fleet.route_once(500), (Routed{1, kStays}));
}

TEST(EcoRoute, RequestsUnderWayCountBeforeTheyAreReported) {
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, {250, 300});
  EcoRoute policy = fleet.policy();
  // A burst: nothing is reported in between, the dispatcher's books alone move.
  std::vector<int> sent(2, 0);
  for (int i = 0; i < 20; ++i) {
    const auto to = static_cast<std::size_t>(fleet.route(policy).to);
    ++sent[to];
    ++fleet.views[to].assigned_requests;
    fleet.views[to].assigned_prompt_tokens += 100;
  }
  EXPECT_EQ(sent, (std::vector<int>{6, 14})) << "six fit under the border, no more";
}

TEST(EcoRoute, WaitingLostIdleAndUnknownInstances) {
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, {10, 10});
  fleet.views[0].step.waiting_requests = 1;  // EcoFreq runs it at the maximum
  EXPECT_EQ(fleet.route_once(), (Routed{1, kLowest}));
  fleet.views[0].step.waiting_requests = 0;
  fleet.views[0].telemetry = Telemetry::Lost;
  EXPECT_EQ(fleet.route_once(), (Routed{1, kLowest}));
  fleet.views[0].telemetry = Telemetry::Idle;
  fleet.put(0, 0);
  fleet.views[0].clock_commanded = MegaHertz{210};
  EXPECT_EQ(fleet.route_once(), (Routed{0, kTurn})) << "parked, but its clock under work is what counts";
  fleet.joined = 1;
  fleet.views[1].clock_commanded = kHigh;
  EXPECT_EQ(fleet.route_once(), (Routed{0, kLowest}));
  fleet.views[1].clock_commanded = MegaHertz{900};
  EXPECT_EQ(fleet.route_once(), (Routed{1, kLowest}));
}

TEST(EcoRoute, APredictorThatTalksNonsenseMeansTheMaximum) {
  class Nonsense final : public LatencyModel {
   public:
    [[nodiscard]] Span step_time(const StepShape&, MegaHertz) const override { return Span::ms(-3); }
  } nonsense;
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, {10, 10});
  fleet.specs[0].beliefs.latency = &nonsense;
  EXPECT_EQ(fleet.route_once(), (Routed{1, kLowest}));
  fleet.specs[1].beliefs.latency = nullptr;
  EXPECT_EQ(fleet.route_once(), (Routed{0, kTurn})) << "both at the maximum";
}

/// Requests of two instances, ascending, after so many have arrived and none has left.
std::vector<std::int32_t> held_after(int requests, Fleet& fleet, EcoRoute& policy) {
  for (int i = 0; i < requests; ++i) {
    const auto to = static_cast<std::size_t>(fleet.route(policy).to);
    fleet.put(to, fleet.views[to].assigned_requests + 1);
  }
  std::vector<std::int32_t> held{fleet.views[0].assigned_requests, fleet.views[1].assigned_requests};
  std::ranges::sort(held);
  return held;
}

/// The papers' example: 520 requests, two instances, a border at 256. Round-robin gives 260/260 and raises both;
/// EcoRoute keeps one within the border. Requests stay, so that the end state is the sum of the decisions.
TEST(EcoRoute, KeepsOneInstanceLowWhereRoundRobinRaisesBoth) {
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, {0, 0});
  EcoRoute policy = fleet.policy();
  EXPECT_EQ(held_after(520, fleet, policy), (std::vector<std::int32_t>{256, 264}));
  StepShape symmetric;
  symmetric.decode_requests = 260;
  const ClockRule rule = make_clock_rule(fleet.how.clocks, fleet.specs.front(), 0.0);
  EXPECT_EQ(clock_for(rule, symmetric, 0, rule.itl, &model).clock, kHigh);
  Fleet given(model, {kLow, kHigh}, {240, 280});
  EXPECT_EQ(given.route_once(), (Routed{0, kLowest})) << "240 may grow to 256";
}

/// Any fleet against the definition: each case is re-derived from the choices of a new EcoFreq.
RC_GTEST_PROP(EcoRouteProperty, EveryDecisionFollowsFromEcoFreqsOwnChoices, (std::uint64_t seed)) {
  RandomStream random(seed, "eco-route fleets");
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low)));
  };
  const std::vector<MegaHertz> clocks =
      draw(0, 2) == 0 ? std::vector{kLow, kHigh}
                      : std::vector{kLow, MegaHertz{1095}, MegaHertz{1200}, MegaHertz{1305}, kHigh};
  std::map<MegaHertz, std::int32_t> borders;
  std::int32_t border = 0;
  for (const MegaHertz clock : clocks) borders[clock] = border += draw(0, 4);
  const Limits model(borders);
  std::vector<std::int32_t> requests;
  for (int n = draw(1, 9); n > 0; --n) requests.push_back(draw(1, 16));
  Fleet fleet(model, clocks, requests);
  fleet.options.max_spread = MegaHertz{draw(0, 500)};
  if (draw(0, 2) == 0) fleet.options.beyond_spread = BeyondSpread::LowestCurrent;
  fleet.views[static_cast<std::size_t>(draw(0, static_cast<int>(requests.size())))].step.waiting_requests = draw(0, 2);

  const auto clock_with = [&](InstanceView view, std::int32_t more) {
    view.step.shape.decode_requests += more;
    EcoFreqOptions options;
    options.clocks = fleet.how.clocks;
    return EcoFreq(options, *view.spec).choose(view, Instant{}).clock;
  };
  std::vector<MegaHertz> now;
  std::vector<MegaHertz> then;
  bool some = false;
  bool all = true;
  for (const auto& view : fleet.views) {
    now.push_back(clock_with(view, 0));
    then.push_back(clock_with(view, 1));
    (then.back() > now.back() ? some : all) = then.back() > now.back();
  }
  const Routed routed = fleet.route_once();
  const auto at = static_cast<std::size_t>(routed.to);
  const MegaHertz lowest_now = *std::ranges::min_element(now);
  const MegaHertz lowest_then = *std::ranges::min_element(then);
  const MegaHertz highest_then = *std::ranges::max_element(then);
  if (!some) {
    RC_ASSERT(now[at] == lowest_now);
    RC_ASSERT(routed.reason == (lowest_now == *std::ranges::max_element(now) ? kTurn : kLowest));
  } else if (all) {
    RC_ASSERT(routed.reason == kAllRise && then[at] == lowest_then);
  } else if (highest_then.value() - lowest_then.value() <= fleet.options.max_spread.value()) {
    RC_ASSERT(routed.reason == kStays && then[at] == now[at]);
    for (std::size_t i = 0; i < now.size(); ++i) RC_ASSERT(then[i] != now[i] || now[at] <= now[i]);
  } else if (fleet.options.beyond_spread == BeyondSpread::LowestCurrent) {
    RC_ASSERT(routed.reason == kWideNow && now[at] == lowest_now);
  } else {
    RC_ASSERT(routed.reason == kWideAfter && then[at] == lowest_then);
  }
}

/// Among equal instances every one is used, whichever join and leave.
RC_GTEST_PROP(EcoRouteProperty, EqualsAreServedInTurn, ()) {
  const auto n = *rc::gen::inRange<std::size_t>(1, 12);
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, std::vector<std::int32_t>(n, 10));
  EcoRoute policy = fleet.policy();
  for (int i = *rc::gen::inRange(0, 30); i > 0; --i) (void)fleet.route(policy);
  std::set<std::int32_t> served;
  for (std::size_t i = 0; i < n; ++i) served.insert(fleet.route(policy).to);
  RC_ASSERT(served.size() == n);
}

TEST(EcoRoute, AnInstanceBeyondItsObjectiveAttractsNothing) {
  // Instance 0 is at the highest clock and full: one more and even that takes 70 ms. Instance 1 would rise.
  const Limits model({{kLow, 256}, {kHigh, 300}});
  Fleet fleet(model, {kLow, kHigh}, {300, 256});
  EXPECT_EQ(fleet.route_once().to, 0) << "the paper's rule: it does not rise";
  fleet.options.spare_overloaded = true;
  fleet.aim_below(Span::ms(100));
  fleet.options.overload_margin = 0.30;
  EXPECT_EQ(fleet.route_once().to, 0) << "the limit is judged, not what EcoFreq aims at: 70 ms is within";
  fleet.options.overload_margin = 0.31;
  EXPECT_EQ(fleet.route_once().to, 1);
  fleet.put(1, 300);  // no instance is left with a feasible clock: the plain rules apply
  EcoRoute policy = fleet.policy();
  EXPECT_EQ(fleet.route(policy), (Routed{0, "1a: all clocks equal: its turn"}));
  EXPECT_EQ(fleet.route(policy), (Routed{1, "1a: all clocks equal: its turn"}));
}

TEST(EcoRoute, WhatWaitsForKvBlocksCountsBeyondAnObjective) {
  // Both at the highest clock. Instance 0 decodes few, as more do not fit its KV cache, and 20 wait there.
  const Limits model({{kLow, 0}, {kHigh, 300}});
  Fleet fleet(model, {kLow, kHigh}, {290, 280});
  fleet.views[0].assigned_requests = 310;
  fleet.views[0].step.waiting_requests = 20;
  EXPECT_EQ(fleet.route_once().to, 0) << "the paper's rule: neither rises";
  fleet.options.spare_overloaded = true;
  fleet.options.overload_margin = 0.0;
  EXPECT_EQ(fleet.route_once().to, 1) << "with them no clock would do";
}

TEST(EcoRoute, AnInstanceWhoseKvCacheIsFullAttractsNothing) {
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, {10, 10});
  fleet.options.spare_overloaded = true;
  fleet.options.overload_margin = 0.0;
  fleet.put(0, 10, 950);
  fleet.put(1, 10, 900);
  EXPECT_EQ(fleet.route_once(100).to, 0) << "its turn: no capacity is known";
  for (InstanceSpec& spec : fleet.specs) spec.kv_capacity_tokens = 1001;
  EXPECT_EQ(fleet.route_once(100).to, 1) << "101 tokens more do not fit";
  EXPECT_EQ(fleet.route_once(50).to, 0);
  EXPECT_EQ(fleet.route_once(200).to, 0) << "they fit nowhere: the rules as they are";
}

/// An instance that joins later is judged by its own clocks, and removed when it leaves.
TEST(EcoRoute, AnInstanceThatJoinsLateIsRoutedToByItsClocks) {
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, {256, 10});
  fleet.joined = 1;
  EcoRoute policy = fleet.policy();
  fleet.views[1].clock_commanded = MegaHertz{1980};  // as an engine starts
  EXPECT_EQ(fleet.route(policy).to, 0) << "not known: its clock is taken to stay, and the other's is lower";
  policy.observe(event::Joined{fleet.views[1]}, {});
  EXPECT_EQ(fleet.route(policy), (Routed{1, kStays})) << "the other would rise, it would not";
  policy.observe(event::Gone{fleet.views[1]}, {});
  EXPECT_EQ(fleet.route(policy).to, 0);
}

/// Each is found by its id, after others have left and whatever order they joined in.
TEST(EcoRoute, InstancesThatJoinInAnyOrderAreKnownByTheirIds) {
  const auto model = at_256();
  Fleet fleet(model, {kLow, kHigh}, {256, 256, 10});
  fleet.joined = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    fleet.views[i].id = InstanceId{static_cast<std::int32_t>(7 + 2 * i)};
    fleet.views[i].clock_commanded = MegaHertz{1980};  // taken to stay where no rule is known
  }
  EcoRoute policy = fleet.policy();
  for (const std::size_t i : {2U, 0U, 1U}) policy.observe(event::Joined{fleet.views[i]}, {});
  policy.observe(event::Gone{fleet.views[0]}, {});
  fleet.views[0].accepting = false;
  EXPECT_EQ(fleet.route(policy), (Routed{11, kStays})) << "9 would rise";
  fleet.put(2, 256);
  fleet.put(1, 10);
  EXPECT_EQ(fleet.route(policy), (Routed{9, kStays})) << "11 would rise";
}

// --- Borders::Tiles ---

/// Steps of 40 ms and 5 ms more for each tile of 100 requests begun; at the low clock half as long again.
class Stairs final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const double ms = 20.0 + 5.0 * ((shape.decode_requests + 99) / 100) + 0.01 * shape.decode_requests;
    return Span::from_seconds(ms * 1e-3 * (clock == kLow ? 1.5 : 1.0));
  }
};

TEST(TileEnds, AreWhereOneMoreRequestMakesEveryTokenCostMore) {
  EXPECT_EQ(tile_ends(Stairs(), kHigh), (std::vector<std::int32_t>{100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}));
  EXPECT_TRUE(tile_ends(at_256(), kHigh).empty()) << "no step, no tile";
  class Ramp final : public LatencyModel {  // 1 % a request, and a predictor's own steps of 1.5 %
   public:
    [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz) const override {
      return Span::us(20'000 + 20 * shape.decode_requests + 300 * (shape.decode_requests / 64));
    }
  };
  EXPECT_TRUE(tile_ends(Ramp(), kHigh).empty());
}

class Tiles : public ::testing::Test {
 protected:
  /// Within 60 ms: at kLow as far as 40 ms at kHigh, which is 200 requests here (34, 51 ms) but not 400 (44, 66 ms).
  Fleet fleet(std::vector<std::int32_t> requests) {
    Fleet made(stairs_, {kLow, kHigh}, std::move(requests));
    made.options.borders = Borders::Tiles;
    return made;
  }
  Stairs stairs_;
};

TEST_F(Tiles, FillsTheFullestOfTheFewest) {
  EXPECT_EQ(fleet({150, 160, 140}).route_once(), (Routed{1, "tiles: fills one, no clock rises"}));
  EXPECT_EQ(fleet({50, 60, 40}).route_once().to, 2) << "in the first tile, the fewest";
  EXPECT_EQ(fleet({150, 60, 170}).route_once().to, 1) << "the lower tile first";
  EXPECT_EQ(fleet({150, 100, 170}).route_once().to, 2) << "that is full: the fullest of the next";
  EXPECT_EQ(fleet({0, 60}).route_once().to, 0) << "nothing begun";
  EXPECT_EQ(fleet({70, 70}).route_once().to, 0) << "the lowest id between equals";
}

TEST_F(Tiles, BeginsATileWhereAllAreFull) {
  EXPECT_EQ(fleet({200, 100, 200}).route_once(), (Routed{1, "tiles: begins one, no clock rises"}));
}

TEST_F(Tiles, ARisingClockCostsMoreThanATile) {
  // 301 requests no longer fit 60 ms at the low clock (20 + 20 + 3.01) x 1.5; 400 at the high one is a full tile.
  EXPECT_EQ(fleet({300, 400}).route_once().to, 1);
  EXPECT_EQ(fleet({300, 300}).route_once(), (Routed{0, "tiles: all rise: fullest of the fewest tiles"}));
  EXPECT_EQ(fleet({300, 290}).route_once().to, 1) << "below the border there is room";
}

TEST_F(Tiles, WhatWaitsOrIsUnderWayCounts) {
  Fleet two = fleet({190, 180});
  two.views[1].assigned_requests = 195;
  EXPECT_EQ(two.route_once().to, 1) << "15 more are on their way there";
}

TEST_F(Tiles, BeyondAnObjectiveClocksDoNotCount) {
  Fleet two = fleet({300, 700});  // 20 + 40 + 7.01 ms at the high clock
  EXPECT_EQ(two.route_once().to, 1) << "the other would rise";
  two.options.spare_overloaded = true;
  two.options.overload_margin = 0.0;
  EXPECT_EQ(two.route_once(), (Routed{0, "tiles: some beyond their objective: fewest requests of the others"}));
  two.put(0, 650);
  two.views[0].assigned_requests = 750;
  two.views[0].step.waiting_requests = 100;
  EXPECT_EQ(two.route_once().to, 1) << "beyond everybody's, a queue is no reason to be sent more";
}

TEST_F(Tiles, BeyondTheLastEndTheFewestRequestsWin) {
  EXPECT_EQ(fleet({1010, 1005}).route_once().to, 1);
  EXPECT_EQ(fleet({1000, 1005}).route_once().to, 0);
}

/// The papers' example again, held by tiles: one stays at the border, the rest gathers in the other.
TEST_F(Tiles, KeepsOneInstanceLow) {
  Fleet two = fleet({0, 0});
  EcoRoute policy = two.policy();
  EXPECT_EQ(held_after(620, two, policy), (std::vector<std::int32_t>{300, 320}));
}

TEST_F(Tiles, AnInstanceWithoutARuleIsNoSurprise) {
  Fleet two = fleet({10, 20});
  two.joined = 1;
  EXPECT_EQ(two.route_once().to, 0) << "no tiles known there: 20 against 10 in the first tile";
  two = fleet({300, 280});
  const Limits flat({{kLow, 300}});
  for (auto& instance : two.specs) instance.beliefs.latency = &flat;
  EXPECT_EQ(two.route_once().to, 1) << "without tiles, clocks first and then the fewest";
  two.put(1, 250);
  two.put(0, 260);
  EXPECT_EQ(two.route_once().to, 1);
}

}  // namespace
}  // namespace wattle::policy::eco_route_test
