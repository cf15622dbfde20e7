#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/routing/least_energy.h"
#include "policy/routing/least_loaded.h"
#include "policy/routing/least_prompts.h"
#include "policy/routing/power_of_two.h"
#include "policy/routing/prefix_affinity.h"
#include "policy/routing/random.h"
#include "policy/routing/round_robin.h"
#include "policy/routing/weighted_round_robin.h"

namespace wattle::policy::routing_test {
namespace {

/// Instances 0 to n-1, and the candidates among them.
class Fleet {
 public:
  explicit Fleet(std::size_t n) : specs(n), views(n) {
    for (std::size_t i = 0; i < n; ++i) {
      views[i].id = InstanceId{static_cast<std::int32_t>(i)};
      views[i].spec = &specs[i];
    }
  }
  [[nodiscard]] std::int32_t route(RoutingPolicy& policy, const Request& request = {}) {
    std::vector<const InstanceView*> candidates;
    for (const auto& view : views) {
      if (view.accepting) candidates.push_back(&view);
    }
    return policy.route(request, candidates, Instant{}, random).instance.value();
  }
  std::vector<InstanceSpec> specs;
  std::vector<InstanceView> views;
  RandomStream random{7, "test"};
};

TEST(RoundRobin, TakesTurnsAndKeepsThemWhenInstancesComeAndGo) {
  Fleet fleet(4);
  RoundRobin policy;
  EXPECT_EQ(fleet.route(policy), 0);
  EXPECT_EQ(fleet.route(policy), 1);
  fleet.views[2].accepting = false;
  EXPECT_EQ(fleet.route(policy), 3);
  EXPECT_EQ(fleet.route(policy), 0);
  fleet.views[2].accepting = true;
  EXPECT_EQ(fleet.route(policy), 1);
  EXPECT_EQ(fleet.route(policy), 2);
  fleet.views[3].accepting = false;
  EXPECT_EQ(fleet.route(policy), 0);
}

/// A prompt of so many blocks of 16 tokens, `shared` of them with this prefix.
Request prompt_of(std::uint64_t prefix, std::size_t shared, std::size_t blocks) {
  static std::uint64_t own = 1'000'000;
  std::vector<std::uint64_t> ids(shared, prefix);
  while (ids.size() < blocks) ids.push_back(++own);
  Request request;
  request.content = chained(16, ids);
  return request;
}

TEST(PrefixAffinity, KeepsPrefixesTogetherAndSpreadsThemOverTheFleet) {
  Fleet fleet(8);
  PrefixAffinity policy;
  std::map<std::int32_t, int> prefixes_at;
  std::vector<std::int32_t> place;
  for (std::uint64_t prefix = 0; prefix < 400; ++prefix) {
    place.push_back(fleet.route(policy, prompt_of(prefix, 32, 40)));
    ++prefixes_at[place.back()];
    EXPECT_EQ(fleet.route(policy, prompt_of(prefix, 32, 100)), place.back()) << "what follows the prefix is nothing";
  }
  for (const auto& [instance, prefixes] : prefixes_at) {
    EXPECT_NEAR(prefixes, 50, 30) << instance;  // four standard deviations of a fair throw
  }
  fleet.views[3].accepting = false;  // moves only what was there
  for (std::uint64_t prefix = 0; prefix < 400; ++prefix) {
    const std::int32_t now = fleet.route(policy, prompt_of(prefix, 32, 40));
    EXPECT_EQ(now == place[prefix], place[prefix] != 3);
  }
}

TEST(PrefixAffinity, NoInstanceHasMoreThanItsShareOfTheLoad) {
  Fleet fleet(4);
  PrefixAffinity policy({512, 1.25});
  for (int i = 1; i <= 200; ++i) {  // all of one prefix
    const auto at = static_cast<std::size_t>(fleet.route(policy, prompt_of(7, 32, 40)));
    ++fleet.views[at].assigned_requests;
    for (const auto& view : fleet.views) EXPECT_LE(view.assigned_requests, std::ceil(1.25 * i / 4.0));
  }
  Fleet unknown(4);
  unknown.views[0].assigned_requests = unknown.views[1].assigned_requests = unknown.views[3].assigned_requests = 1;
  EXPECT_EQ(unknown.route(policy), 2) << "where nothing is known of the prompt";
}

TEST(PrefixAffinity, ASessionStaysTogetherWhateverItsPromptsBeginWith) {
  Fleet fleet(8);
  PrefixAffinity policy;
  Request first = prompt_of(1, 32, 40);
  Request second = prompt_of(2, 32, 40);
  std::set<std::int32_t> apart;
  for (std::uint64_t session = 1; session < 40; ++session) {
    first.session = second.session = session;
    EXPECT_EQ(fleet.route(policy, first), fleet.route(policy, second));
    apart.insert(fleet.route(policy, first));
  }
  EXPECT_EQ(apart.size(), 8U) << "and sessions of one prefix are spread";
}

TEST(LeastLoaded, ComparesRequestsThenPromptTokensThenIds) {
  Fleet fleet(3);
  LeastLoaded policy;
  EXPECT_EQ(fleet.route(policy), 0);
  fleet.views[0].assigned_requests = 2;
  fleet.views[1].assigned_requests = 1;
  fleet.views[2].assigned_requests = 1;
  fleet.views[1].assigned_prompt_tokens = 500;
  fleet.views[2].assigned_prompt_tokens = 499;
  EXPECT_EQ(fleet.route(policy), 2);
  fleet.views[2].assigned_requests = 3;
  EXPECT_EQ(fleet.route(policy), 1);
}

TEST(PowerOfTwo, NeverTakesTheMostLoadedAndFavoursTheLeast) {
  Fleet fleet(8);
  for (std::size_t i = 0; i < 8; ++i) fleet.views[i].assigned_requests = static_cast<std::int32_t>(i);
  PowerOfTwo policy;
  std::map<std::int32_t, int> taken;
  for (int i = 0; i < 28'000; ++i) ++taken[fleet.route(policy)];
  // Instance i wins against the 7 - i that are fuller: (7 - i) of 28 pairs. Six standard deviations are 420.
  for (std::int32_t i = 0; i < 8; ++i) EXPECT_NEAR(taken[i], 1'000 * (7 - i), 420) << i;
  EXPECT_EQ(taken[7], 0);
}

TEST(Random, DrawsEachAsOftenWhateverItHolds) {
  Fleet fleet(4);
  fleet.views[1].assigned_requests = 500;
  Random policy;
  std::map<std::int32_t, int> taken;
  int repeated = 0;
  std::int32_t before = -1;
  for (int i = 0; i < 16'000; ++i) {
    const std::int32_t to = fleet.route(policy);
    ++taken[to];
    repeated += to == before ? 1 : 0;
    before = to;
  }
  // Six standard deviations of 16,000 draws at a quarter are 329.
  for (std::int32_t i = 0; i < 4; ++i) EXPECT_NEAR(taken[i], 4'000, 329) << i;
  EXPECT_NEAR(repeated, 4'000, 329) << "no turns";
  Fleet again(4);
  Fleet other(4);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(again.route(policy), other.route(policy)) << "the seed's, alone";
}

TEST(Random, DrawsNothingWithoutAChoice) {
  Fleet fleet(1);
  Random policy;
  EXPECT_EQ(fleet.route(policy), 0);
  RandomStream untouched{7, "test"};
  EXPECT_EQ(fleet.random.next_u64(), untouched.next_u64());
}

TEST(PowerOfTwo, DrawsNothingWithoutAChoice) {
  Fleet fleet(1);
  PowerOfTwo policy;
  EXPECT_EQ(fleet.route(policy), 0);
  RandomStream untouched{7, "test"};
  EXPECT_EQ(fleet.random.next_u64(), untouched.next_u64());
}

TEST(WeightedRoundRobin, IsSmooth) {
  Fleet fleet(3);
  fleet.specs[0].weight = 5.0;
  WeightedRoundRobin policy;
  std::string order;
  for (int i = 0; i < 14; ++i) order += static_cast<char>('A' + fleet.route(policy));
  EXPECT_EQ(order, "AABACAAAABACAA");
}

TEST(WeightedRoundRobin, UnusableWeightsServeOnlyWhenThereIsNothingElse) {
  Fleet fleet(4);
  fleet.specs[0].weight = 0.0;
  fleet.specs[1].weight = -3.0;
  fleet.specs[2].weight = std::numeric_limits<double>::quiet_NaN();
  WeightedRoundRobin policy;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fleet.route(policy), 3);
  fleet.views[3].accepting = false;
  EXPECT_EQ(fleet.route(policy), 0);
}

TEST(WeightedRoundRobin, AnInstanceAtItsBoundIsLeftOut) {
  Fleet fleet(2);
  fleet.specs[0].tensor_parallel = 4;
  WeightedRoundRobin policy({.max_in_flight_per_gpu = 2});
  fleet.views[0].assigned_requests = 7;
  fleet.views[1].assigned_requests = 2;
  EXPECT_EQ(fleet.route(policy), 0);
  EXPECT_EQ(fleet.route(policy), 0);
  fleet.views[0].assigned_requests = 8;
  EXPECT_EQ(fleet.route(policy), kNoInstance.value()) << "it is held";
  fleet.views[1].assigned_requests = 1;
  EXPECT_EQ(fleet.route(policy), 1);
}

TEST(WeightedRoundRobin, ABoundIsOfAPoolsWorkersOnOneKindOfGpus) {
  Fleet fleet(3);
  for (auto& spec : fleet.specs) spec.gpu.name = "a100-80g";
  fleet.specs[1].pool = PoolId(1);
  fleet.specs[2].tensor_parallel = 2;
  for (auto& view : fleet.views) view.assigned_requests = 9;
  WeightedRoundRobinOptions options;
  options.max_in_flight_per_gpu = 5;
  options.bounds = {{PoolId(0), 1, "h100", 100}, {PoolId(0), 1, "a100", 9}, {PoolId(1), 1, "a100", 10}};
  WeightedRoundRobin policy(options);
  EXPECT_EQ(fleet.route(policy), 1) << "the first is full";
  EXPECT_EQ(fleet.route(policy), 2) << "of the last nothing is said but five a GPU";
  fleet.views[2].assigned_requests = 10;
  EXPECT_EQ(fleet.route(policy), 1);
  EXPECT_EQ(fleet.route(policy), 1);
}

/// Constant capacity per second, and a constant cost per request.
class Carries final : public LoadProfile {
 public:
  Carries(double per_s, double watts) : per_s_(per_s), watts_(watts) {}
  [[nodiscard]] double max_load_per_s(ClassId, MegaHertz) const override { return per_s_; }
  [[nodiscard]] LoadPoint at(ClassId, double load_per_s, MegaHertz) const override {
    return {Watts(watts_ * load_per_s), Span(), Span()};
  }

 private:
  double per_s_, watts_;
};

TEST(LeastPrompts, WhatIsStillToBeComputedCountsThenRequestsAndEqualsTakeTurns) {
  Fleet fleet(4);
  LeastPrompts policy;
  for (const int turn : {0, 1, 2, 3, 0}) EXPECT_EQ(fleet.route(policy), turn);
  fleet.views[1].assigned_requests = 50;  // computed, all of them
  EXPECT_EQ(fleet.route(policy), 2);
  for (auto& view : fleet.views) view.unanswered_prompt_tokens = 100;
  fleet.views[1].unanswered_prompt_tokens = 99;
  EXPECT_EQ(fleet.route(policy), 1) << "though it has more requests";
  fleet.views[1].unanswered_prompt_tokens = 100;
  fleet.views[0].assigned_requests = 1;
  for (const int turn : {2, 3, 2}) EXPECT_EQ(fleet.route(policy), turn);
  for (auto& view : fleet.views) view.assigned_requests = view.spec->max_requests;
  fleet.views[2].assigned_requests -= 1;
  fleet.views[2].unanswered_prompt_tokens = 10'000;
  EXPECT_EQ(fleet.route(policy), 2) << "elsewhere it waits until a request ends";
}

TEST(LeastLoaded, ASmallInstanceBesideALargeOneGetsItsShare) {
  const Carries large(8.0, 10.0), small(2.0, 10.0);
  Fleet fleet(2);
  fleet.specs[0].beliefs.load = &large;
  fleet.specs[1].beliefs.load = &small;
  LeastLoaded policy;
  for (int i = 0; i < 100; ++i) ++fleet.views[static_cast<std::size_t>(fleet.route(policy))].assigned_requests;
  EXPECT_EQ(fleet.views[0].assigned_requests, 80);
}

TEST(LeastEnergy, WhatWaitsAtAnInstanceCountsHoweverLongAgoItCame) {
  const Carries cheap(1.0, 10.0), costly(1.0, 20.0);
  Fleet fleet(2);
  fleet.specs[0].beliefs.load = &cheap;
  fleet.specs[1].beliefs.load = &costly;
  for (auto& view : fleet.views) view.assigned_requests = 20;
  LeastEnergy policy;
  for (const auto& [waiting, chosen] : {std::pair{0, 0}, {9, 0}, {10, 1}}) {
    fleet.views[0].step.waiting_requests = waiting;
    EXPECT_EQ(fleet.route(policy), chosen) << waiting << " of the ten that it carries in LoadShare::kMemory";
  }
  fleet.views[1].step.waiting_requests = 11;
  EXPECT_EQ(fleet.route(policy), 0) << "the least full where all are";
}

RC_GTEST_PROP(WeightedRoundRobinProperty, SharesFollowWeights, ()) {
  const auto weights = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 9)));
  Fleet fleet(weights.size());
  int total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    fleet.specs[i].weight = weights[i];
    total += weights[i];
  }
  WeightedRoundRobin policy;
  std::vector<int> taken(weights.size(), 0);
  for (int i = 0; i < 3 * total; ++i) ++taken[static_cast<std::size_t>(fleet.route(policy))];
  for (std::size_t i = 0; i < weights.size(); ++i) RC_ASSERT(taken[i] == 3 * weights[i]);
}

RC_GTEST_PROP(RoutingProperty, EveryPolicyPicksACandidate, ()) {
  Fleet fleet(*rc::gen::inRange<std::size_t>(1, 20));
  RoundRobin round_robin;
  LeastLoaded least_loaded;
  PowerOfTwo power_of_two;
  WeightedRoundRobin weighted;
  for (int n = 0; n < 50; ++n) {
    for (auto& view : fleet.views) {
      view.accepting = *rc::gen::arbitrary<bool>();
      view.assigned_requests = *rc::gen::inRange(0, 5);
    }
    for (auto& spec : fleet.specs) {
      spec.weight = *rc::gen::element(0.0, 0.5, 1.0, 3.0);
    }
    fleet.views[*rc::gen::inRange<std::size_t>(0, fleet.views.size())].accepting = true;
    for (RoutingPolicy* policy : {static_cast<RoutingPolicy*>(&round_robin), static_cast<RoutingPolicy*>(&least_loaded),
                                  static_cast<RoutingPolicy*>(&power_of_two), static_cast<RoutingPolicy*>(&weighted)}) {
      const auto chosen = fleet.route(*policy);
      RC_ASSERT(chosen >= 0);
      RC_ASSERT(fleet.views.at(static_cast<std::size_t>(chosen)).accepting);
    }
  }
}

}  // namespace
}  // namespace wattle::policy::routing_test
