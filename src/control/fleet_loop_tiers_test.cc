// Tiers as classes: the objectives that instances get, and the pools that requests are routed to.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "control/fleet_driver_test.h"

namespace wattle::control {
namespace {

constexpr Span kLoose = Span::ms(200);
constexpr Span kStrict = Span::ms(40);
constexpr Span kMiddle = Span::ms(100);

/// Tier 0 is the middle one, 1 the strictest, 2 the loosest. Requests below 100 prompt tokens are one size, others
/// another.
FleetLoopOptions three_tiers() {
  const auto tier = [](const char* name, Span tbt) {
    Tier made;
    made.name = name;
    made.slo.tbt = tbt;
    return made;
  };
  FleetLoopOptions options;
  options.slo.ttft = Span::s(2);
  options.service.objectives =
      Objectives(options.slo, {}, {}, {tier("middle", kMiddle), tier("strict", kStrict), tier("loose", kLoose)});
  options.service.classes = Classifier({100}, {}).by_tier({"loose", "middle", "strict"}, {1, 2, 0});
  return options;
}

/// Records the objectives that instances get.
class Held final : public RequestPort {
 public:
  void start(const Request& request, Tag, const RouteDecision& at, Instant) override {
    where[request.id] = at.instance;
  }
  void hand_over(const Request&, Tag, InstanceId, const RouteDecision&, Instant) override {}
  Served refuse(const Request&, Tag, Refusal, const char*, Instant) override { return {}; }
  void held_to(InstanceId instance, const Slo& slo, Instant) override {
    EXPECT_EQ(slo.ttft, Span::s(2)) << "the fleet's";
    tbt[instance] = slo.tbt.value_or(Span::max());
    ++said;
  }
  std::map<RequestId, InstanceId> where;
  std::map<InstanceId, Span> tbt;
  int said = 0;
};

struct Tiers {
  std::deque<InstanceSpec> specs;
  Held port;
  Journal journal;
  std::unique_ptr<FleetLoop> loop;
  std::int64_t id = 0;  ///< of the newest request
  std::int64_t time = 0;

  /// One instance in each pool.
  explicit Tiers(std::int32_t pools, const FleetLoopOptions& options = three_tiers()) {
    std::vector<InstanceView> views;
    for (std::int32_t p = 0; p < pools; ++p) views.push_back(of_pool(p));
    loop = std::make_unique<FleetLoop>(std::move(views), DispatchPolicies{}, 1, options, port, journal);
  }
  Instant later() { return Instant(++time); }
  InstanceView of_pool(std::int32_t pool) {
    InstanceSpec& spec = specs.emplace_back();
    spec.pool = PoolId(pool);
    InstanceView view;
    view.id = InstanceId(static_cast<std::int32_t>(specs.size()) - 1);
    view.spec = &spec;
    return view;
  }
  /// The instance on which the request starts.
  InstanceId arrive(std::int32_t tier, std::int32_t prompt = 10) {
    Request r = request(++id, prompt);
    r.tier = TierId(tier);
    loop->arrive(r, 0, later());
    return port.where.at(r.id);
  }
  void leave(std::int64_t which) { loop->leave(RequestId(which), Fate::Finished, "", {}, later()); }
  /// Pools of one size, loosest first.
  void weigh(const std::vector<std::int32_t>& pool_of) {
    std::vector<PoolWeight> weights;
    for (std::size_t c = 0; c < pool_of.size(); ++c) {
      weights.push_back({ClassId(static_cast<std::int32_t>(c)), PoolId(pool_of[c]), 1.0});
    }
    loop->reroute(weights, later());
  }
  Span tbt(std::int32_t instance) const {
    return loop->held_to(InstanceId(instance)) == nullptr
               ? kStrict
               : loop->held_to(InstanceId(instance))->tbt.value_or(Span::max());
  }
};

TEST(FleetLoopTiers, AnInstanceHearsThatTtftsDiffer) {
  FleetLoopOptions options;
  std::vector<Slo> by_size(2);
  by_size[0].ttft = Span::ms(250);
  by_size[1].ttft = Span::s(2);
  options.service.objectives = Objectives({}, Classifier({100}, {}), by_size, {});
  const Tiers fleet(1, options);
  const Slo* slo = fleet.loop->held_to(InstanceId(0));
  ASSERT_NE(slo, nullptr) << "its own spec says nothing of it where an agent described it";
  EXPECT_EQ(slo->ttft, Span::ms(250));
  EXPECT_TRUE(slo->ttft_varies);
}

TEST(FleetLoopTiers, AnInstanceIsHeldToTheStrictestTierOfItsPool) {
  Tiers fleet(3);
  for (const std::int32_t i : {0, 1, 2}) EXPECT_EQ(fleet.loop->held_to(InstanceId(i)), nullptr) << "pools are for all";
  EXPECT_EQ(fleet.port.said, 0);
  fleet.weigh({0, 1, 2});
  EXPECT_EQ(fleet.port.tbt, (std::map<InstanceId, Span>{{InstanceId(0), kLoose}, {InstanceId(1), kMiddle}}));
  EXPECT_EQ(fleet.loop->held_to(InstanceId(2)), nullptr);
  EXPECT_EQ(fleet.tbt(0), kLoose) << "for a driver that sets one up";

  fleet.weigh({1, 1, 2});  // merges the loosest pool into the middle one
  EXPECT_EQ(fleet.tbt(1), kMiddle);
  fleet.weigh({0, 0, 0});
  EXPECT_EQ(fleet.port.tbt.at(InstanceId(0)), kStrict) << "all into one, said at once";
  fleet.weigh({0, 1, 2});
  EXPECT_EQ(fleet.port.tbt.at(InstanceId(0)), kLoose);
  const int said = fleet.port.said;
  fleet.weigh({0, 1, 2});
  EXPECT_EQ(fleet.port.said, said) << "what has not changed is not said";

  InstanceView more = fleet.of_pool(0);
  const InstanceId joined = fleet.loop->add_instance(more, fleet.later());
  EXPECT_EQ(fleet.tbt(joined.value()), kLoose);
  EXPECT_EQ(fleet.port.said, said) << "its driver asks";
  fleet.loop->remove_instance(InstanceId(0), fleet.later());
  fleet.weigh({1, 1, 2});
  EXPECT_EQ(fleet.tbt(1), kMiddle) << "others stay what they are";
}

TEST(FleetLoopTiers, AStricterRequestIsKeptWhereverItIsUntilItHasLeft) {
  Tiers fleet(3);
  fleet.weigh({0, 1, 2});
  EXPECT_EQ(fleet.arrive(2), InstanceId(0));
  EXPECT_EQ(fleet.tbt(0), kLoose);
  // Two strict requests come to the loosest pool and one to the middle pool, as no other is left.
  fleet.loop->set_accepting(InstanceId(1), false, fleet.later());
  fleet.loop->set_accepting(InstanceId(2), false, fleet.later());
  EXPECT_EQ(fleet.arrive(0), InstanceId(0));
  EXPECT_EQ(fleet.port.tbt.at(InstanceId(0)), kMiddle);
  EXPECT_EQ(fleet.arrive(1), InstanceId(0));
  EXPECT_EQ(fleet.arrive(1), InstanceId(0));
  EXPECT_EQ(fleet.port.tbt.at(InstanceId(0)), kStrict);
  fleet.leave(3);
  EXPECT_EQ(fleet.tbt(0), kStrict) << "one is still there";
  fleet.leave(4);
  EXPECT_EQ(fleet.port.tbt.at(InstanceId(0)), kMiddle);
  fleet.leave(2);
  EXPECT_EQ(fleet.port.tbt.at(InstanceId(0)), kLoose);

  // A plan splits one pool in two: running requests keep their objectives.
  fleet.weigh({0, 0, 0});
  EXPECT_EQ(fleet.arrive(1), InstanceId(0));
  const std::int64_t strict = fleet.id;
  fleet.weigh({0, 1, 2});
  EXPECT_EQ(fleet.tbt(0), kStrict);
  fleet.leave(strict);
  EXPECT_EQ(fleet.tbt(0), kLoose);
}

TEST(FleetLoopTiers, OtherClassesMayTellOtherTiersApart) {
  auto options = three_tiers();
  const Classifier by_tier = options.service.classes;
  options.service.classes = Classifier({100}, {});
  Tiers fleet(6, options);
  const auto weigh_all = [&] { fleet.weigh({0, 1, 2, 3, 4, 5}); };
  fleet.weigh({0, 3});
  for (const std::int32_t i : {0, 1, 3}) EXPECT_EQ(fleet.tbt(i), kStrict) << "tiers make no difference";

  fleet.loop->sort_by(by_tier, fleet.later());
  weigh_all();
  EXPECT_EQ(fleet.tbt(0), kLoose);
  EXPECT_EQ(fleet.tbt(4), kMiddle);
  // The pool of strict small requests is gone: pool 3 is the next larger one, and looser.
  fleet.loop->set_accepting(InstanceId(2), false, fleet.later());
  EXPECT_EQ(fleet.arrive(1), InstanceId(5));
  EXPECT_STREQ(fleet.journal.decisions.back().reason, "overflow");
  EXPECT_EQ(fleet.arrive(0), InstanceId(1));

  fleet.loop->sort_by(Classifier({100}, {}), fleet.later());
  for (const std::int32_t i : {0, 1, 2, 3, 4, 5}) EXPECT_EQ(fleet.tbt(i), kStrict);
  EXPECT_EQ(fleet.port.tbt.at(InstanceId(0)), kStrict) << "and that was said";
}

TEST(FleetLoopTiers, ATierWithAnObjectiveForAnswersDoesNotHurryTheOthers) {
  FleetLoopOptions options = three_tiers();
  std::vector<Tier> tiers = options.service.objectives->tiers();
  tiers[1].slo.e2e = Span::s(60);  // the strictest
  options.service.objectives = Objectives(options.slo, {}, {}, tiers);
  options.answers.late = 0.01;
  Tiers fleet(3, options);
  fleet.weigh({0, 1, 2});
  fleet.arrive(2);
  fleet.arrive(0);
  EXPECT_EQ(fleet.tbt(0), kLoose);
  EXPECT_EQ(fleet.tbt(1), kMiddle);
  EXPECT_EQ(fleet.tbt(2), kStrict) << "no request of this tier has arrived";
  fleet.arrive(1);
  EXPECT_EQ(fleet.tbt(0), kLoose);
  EXPECT_EQ(fleet.tbt(1), kMiddle);
  EXPECT_EQ(fleet.tbt(2), AnswerGaps::kNothingKnown);
}

}  // namespace
}  // namespace wattle::control
