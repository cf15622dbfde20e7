#include "policy/throttllem/throttllem.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace wattle::policy::throttllem_test {
namespace {

/// An iteration takes 10 ms per running request at 1000 MHz, inversely with the clock; 10 us per prompt token.
class PerRequest final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& s, MegaHertz clock) const override {
    return Span((10'000'000 * std::int64_t{s.decode_requests} + 10'000 * s.prefill_tokens) * 1000 / clock.value());
  }
};

class Broken final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape&, MegaHertz) const override { return Span(-1); }
};

/// Options, and the objectives of every instance.
struct Case : ThrottllemOptions {
  Slo slo;
};

struct House {
  explicit House(const Case& setup = {}, const LatencyModel* latency = nullptr, int instances = 1,
                 const ThrottllemClockOptions& clock = {}, std::shared_ptr<const LengthModel> length = nullptr)
      : policy(setup, clock, std::move(length)) {
    spec.clocks = {MegaHertz{500}, MegaHertz{750}, MegaHertz{1000}};
    spec.kv_capacity_tokens = 16'000;
    spec.slo = setup.slo;
    spec.beliefs.latency = latency;
    for (int i = 0; i < instances; ++i) {
      InstanceView view;
      view.id = InstanceId(i);
      view.spec = &spec;
      views.push_back(view);
    }
    for (const auto& view : views) policy.observe(event::Joined{view}, {});
  }
  AdmissionDecision ask(const Request& r, Instant now = {}) { return policy.admit(r, {now, views}); }
  AdmissionDecision enter(const Request& r, Instant now = {}) {
    const auto decision = ask(r, now);
    if (decision.verdict == Admission::Admit) start(r, decision.instance, now);
    return decision;
  }
  void start(const Request& r, InstanceId at, Instant now = {}) {
    auto& view = views[static_cast<std::size_t>(at.value())];
    ++view.assigned_requests;
    policy.observe(event::Started{r, view}, now);
  }
  void leave(const Request& r, Instant now = {}) {
    Outcome outcome;
    outcome.request = r;
    policy.observe(event::Left{outcome}, now);
  }
  const Scoreboard& board(int i = 0) { return *policy.board(InstanceId(i)); }

  InstanceSpec spec;
  Throttllem policy;
  std::vector<InstanceView> views;
};

Request request(std::int64_t id, std::int32_t prompt, std::int32_t predicted, std::int32_t max_tokens = 1000) {
  Request r;
  r.id = RequestId{id};
  r.prompt_tokens = prompt;
  r.predicted_output_tokens = predicted;
  r.max_tokens = max_tokens;
  return r;
}

Case within(Span e2e, Span tbt = Span::s(100)) {
  Case o;
  o.slo.e2e = e2e;
  o.slo.tbt = tbt;
  return o;
}

const PerRequest kModel;

TEST(ThrottllemAdmission, BindsToTheLeastAssignedThatPasses) {
  House house(within(Span::s(10)), &kModel, 2);
  EXPECT_EQ(house.enter(request(1, 100, 10)).instance, InstanceId{0});
  EXPECT_EQ(house.enter(request(2, 100, 10)).instance, InstanceId{1});
  house.views[0].accepting = false;
  EXPECT_EQ(house.enter(request(3, 100, 10)).instance, InstanceId{1});
  house.views[1].accepting = false;
  EXPECT_EQ(house.ask(request(4, 100, 10)).verdict, Admission::Hold);
}

TEST(ThrottllemAdmission, HoldsWhatWouldOverflowTheCache) {
  House house({}, &kModel);
  EXPECT_EQ(house.enter(request(1, 8000, 100)).verdict, Admission::Admit);
  const auto held = house.ask(request(2, 8000, 100));
  EXPECT_EQ(held.verdict, Admission::Hold);
  EXPECT_STREQ(held.reason, "the KV cache would overflow");
  EXPECT_EQ(house.board().size(), 1U) << "rolled back";
  house.leave(request(1, 8000, 100));
  EXPECT_EQ(house.ask(request(2, 8000, 100)).verdict, Admission::Admit);
}

TEST(ThrottllemAdmission, RejectsAtOnceWhatCanNeverFit) {
  House house({}, &kModel);
  EXPECT_EQ(house.ask(request(1, 16'000, 1)).verdict, Admission::Admit);
  const auto refused = house.ask(request(1, 16'001, 1));
  EXPECT_EQ(refused.verdict, Admission::Reject);
  EXPECT_STREQ(refused.reason, "the prompt can never fit in the KV cache");
}

TEST(ThrottllemAdmission, HoldsWhatWouldMakeTheMeanIterationTooLong) {
  House house(within(Span::s(1000), Span::ms(15)), &kModel);
  EXPECT_EQ(house.enter(request(1, 10, 100)).verdict, Admission::Admit);
  EXPECT_STREQ(house.ask(request(2, 10, 100)).reason, "the mean iteration would be too long");
  EXPECT_EQ(house.ask(request(3, 10, 10)).verdict, Admission::Admit) << "ten of a hundred iterations are doubled";
}

TEST(ThrottllemAdmission, HoldsWhatWouldMakeARunningRequestLate) {
  House house(within(Span::ms(1100)), &kModel);
  EXPECT_EQ(house.enter(request(1, 10, 100)).verdict, Admission::Admit);  // ends at 1000 ms
  const auto held = house.ask(request(2, 10, 50));                        // would make it 1500 ms
  EXPECT_EQ(held.verdict, Admission::Hold);
  EXPECT_STREQ(held.reason, "a running request would end too late");
  EXPECT_EQ(house.board().lost(), 0);
}

TEST(ThrottllemAdmission, PromptsCountAgainstDeadlinesWhenAsked) {
  for (const bool count_prefill : {false, true}) {
    auto options = within(Span::ms(1100));
    options.count_prefill = count_prefill;
    House house(options, &kModel);
    house.enter(request(1, 10, 100));  // ends at 1000 ms, with five shared iterations at 1050
    EXPECT_EQ(house.ask(request(2, 8000, 5)).verdict, count_prefill ? Admission::Hold : Admission::Admit);
  }
}

TEST(ThrottllemAdmission, WhoMissesOnlyItsOwnDeadlineIsAdmittedAsLost) {
  House house(within(Span::s(2)), &kModel);
  house.enter(request(1, 10, 20));
  const auto own = house.enter(request(2, 10, 300));
  EXPECT_EQ(own.verdict, Admission::Admit);
  EXPECT_EQ(house.board().lost(), 1);
  EXPECT_EQ(house.enter(request(3, 10, 20)).verdict, Admission::Admit) << "the lost one constrains nobody";
}

TEST(ThrottllemAdmission, ADeadlinePassedOnArrivalIsLostNotStuck) {
  House house(within(Span::s(1)), &kModel);
  Request late = request(1, 10, 5);
  EXPECT_EQ(house.enter(late, Instant() + Span::s(5)).verdict, Admission::Admit);
  EXPECT_EQ(house.board().lost(), 1);
}

TEST(ThrottllemAdmission, TheHopelessDoNotBlockTheQueue) {
  House house(within(Span::ms(1100)), &kModel);
  house.enter(request(1, 10, 100, 100'000));
  EXPECT_EQ(house.ask(request(2, 10, 5)).verdict, Admission::Admit);
  house.views[0].step.sequence = 200;  // it has outlived its prediction and is re-projected at its cap
  house.spec.kv_capacity_tokens = 0;
  auto newcomer = request(2, 10, 10);
  newcomer.arrival = Instant() + Span::s(1);
  EXPECT_EQ(house.enter(newcomer, Instant() + Span::s(1)).verdict, Admission::Admit);
  EXPECT_EQ(house.board().lost(), 1);
}

TEST(ThrottllemAdmission, AnEmptyInstanceTakesWhatMissesEveryObjective) {
  House house(within(Span::ms(1), Span::ms(1)), &kModel);
  EXPECT_EQ(house.enter(request(1, 10, 100)).verdict, Admission::Admit);
  EXPECT_EQ(house.board().lost(), 1);
}

TEST(ThrottllemAdmission, LengthsAreInflatedAndClamped) {
  Case options;
  options.inflation = 0.15;
  House house(options, &kModel);
  house.enter(request(1, 10, 100));
  house.enter(request(2, 10, 0));          // no prediction
  house.enter(request(3, 10, -7));         // nonsense
  house.enter(request(4, 10, 1'000'000));  // beyond max_tokens
  house.enter(request(5, 10, 5, 0));       // no tokens allowed
  house.enter(request(6, 15'990, 500));    // beyond the cache
  std::vector<std::int32_t> lengths(6);
  for (const auto& p : house.board().requests()) {
    lengths[static_cast<std::size_t>(p.id.value() - 1)] = p.predicted_tokens;
  }
  EXPECT_EQ(lengths[0], 115);
  EXPECT_EQ(lengths[1], 1000);
  EXPECT_EQ(lengths[2], 1000);
  EXPECT_EQ(lengths[3], 1000);
  EXPECT_EQ(lengths[4], 1);
  EXPECT_EQ(lengths[5], 0) << "held: the cache is not free";
}

TEST(ThrottllemAdmission, WithoutAPredictorKvAloneCounts) {
  for (const LatencyModel* model :
       {static_cast<const LatencyModel*>(nullptr), static_cast<const LatencyModel*>(new Broken())}) {
    const std::unique_ptr<const LatencyModel> owner(model);
    House house(within(Span::ms(1), Span::ms(1)), model);
    EXPECT_EQ(house.enter(request(1, 8000, 100)).verdict, Admission::Admit);
    EXPECT_EQ(house.enter(request(2, 100, 100)).verdict, Admission::Admit);
    EXPECT_EQ(house.ask(request(3, 8000, 100)).verdict, Admission::Hold);
    EXPECT_EQ(house.board().lost(), 0);
  }
}

TEST(ThrottllemAdmission, TheFirstTokenTellsWhenItReallyBegan) {
  House house({}, &kModel);
  house.views[0].step.sequence = 4;
  house.enter(request(1, 10, 100));
  EXPECT_EQ(house.board().ends()[0], 105);
  house.views[0].step.sequence = 9;  // its prompt had to wait
  house.policy.observe(event::FirstToken{request(1, 10, 100), house.views[0]}, {});
  EXPECT_EQ(house.board().ends()[0], 109);
}

TEST(ThrottllemAdmission, StartedElsewhereThanAskedIsExaminedThere) {
  House house(within(Span::ms(1)), &kModel, 2);
  house.start(request(1, 10, 100), InstanceId{1});  // shadow mode: routing chose
  EXPECT_EQ(house.board(0).size(), 0U);
  EXPECT_EQ(house.board(1).size(), 1U);
  EXPECT_EQ(house.board(1).lost(), 1);
  house.start(request(1, 10, 100), InstanceId{1});
  EXPECT_EQ(house.board(1).size(), 1U) << "nothing is on the board twice";
}

struct Clock : House {
  explicit Clock(const Case& setup, const ThrottllemClockOptions& clock = {}, const LatencyModel* latency = &kModel)
      : House(setup, latency, 1, clock) {}
  ClockDecision choose(Instant now = {}) {
    auto& view = views[0];
    view.step.shape.decode_requests = static_cast<std::int32_t>(board().size());
    view.telemetry = Telemetry::Fresh;
    return policy.choose(view, now);
  }
};

TEST(ThrottllemClock, TheLowestThatMeetsTheDeadline) {
  Clock clock(within(Span::ms(1400)));
  clock.enter(request(1, 10, 100));  // 1000 ms at 1000 MHz, 1333 ms at 750
  EXPECT_EQ(clock.choose().clock, MegaHertz{750});
}

TEST(ThrottllemClock, AnObjectiveThatIsNotStatedBindsNoClock) {
  Case setup;
  setup.slo.e2e = Span::ms(1400);
  Clock clock(setup);
  clock.enter(request(1, 10, 100));
  EXPECT_EQ(clock.choose().clock, MegaHertz{750}) << "no tbt";
}

TEST(ThrottllemClock, AMarginOfTheClockLeavesAdmissionRoom) {
  for (const double margin : {0.0, 0.1}) {
    Clock clock(within(Span::ms(1400)), {.margin = margin});
    clock.enter(request(1, 10, 100));
    EXPECT_EQ(clock.choose().clock, MegaHertz{margin > 0.0 ? 1000 : 750}) << "1333 ms of 1400 or of 1260";
    EXPECT_EQ(clock.ask(request(2, 10, 30)).verdict, Admission::Admit) << "1300 ms at the highest clock";
  }
}

TEST(ThrottllemClock, PaperChoosesOnAdmissionOnly) {
  for (const bool on_leave : {false, true}) {
    Clock clock(within(Span::ms(2900)), {.on_leave = on_leave});
    clock.enter(request(1, 10, 100));
    clock.enter(request(2, 10, 100));
    EXPECT_EQ(clock.choose().clock, MegaHertz{750});
    clock.leave(request(2, 10, 100));
    EXPECT_EQ(clock.choose().clock, MegaHertz{on_leave ? 500 : 750});
    clock.enter(request(3, 10, 1));
    EXPECT_EQ(clock.choose().clock, MegaHertz{500});
  }
}

TEST(ThrottllemClock, HighestWhileALostRequestRuns) {
  Clock clock(within(Span::ms(3500)));
  clock.enter(request(1, 10, 100));
  clock.enter(request(2, 10, 900));
  EXPECT_EQ(clock.choose().clock, MegaHertz{1000});
  clock.leave(request(2, 10, 900));
  EXPECT_EQ(clock.choose().clock, MegaHertz{500}) << "the last lost one has gone";
}

TEST(ThrottllemClock, HighestWhileRequestsAreHeldWhenAsked) {
  for (const bool max_while_held : {false, true}) {
    Clock clock(within(Span::s(100)), {.max_while_held = max_while_held});
    clock.enter(request(1, 8000, 10));
    EXPECT_EQ(clock.choose().clock, MegaHertz{500});
    EXPECT_EQ(clock.enter(request(2, 8000, 10)).verdict, Admission::Hold);
    EXPECT_EQ(clock.choose().clock, MegaHertz{max_while_held ? 1000 : 500});
    clock.leave(request(1, 8000, 10));
    EXPECT_EQ(clock.enter(request(2, 8000, 10)).verdict, Admission::Admit);
    EXPECT_EQ(clock.choose().clock, MegaHertz{500});
  }
}

TEST(ThrottllemClock, SafeWhenBlind) {
  Clock clock(within(Span::s(10)));
  clock.enter(request(1, 10, 10));
  EXPECT_EQ(clock.choose().clock, MegaHertz{500});
  clock.views[0].telemetry = Telemetry::Lost;
  EXPECT_EQ(clock.policy.choose(clock.views[0], {}).clock, MegaHertz{1000});
  EXPECT_EQ(clock.choose().clock, MegaHertz{500});

  Clock without(within(Span::s(10)), {}, nullptr);
  without.enter(request(1, 10, 10));
  EXPECT_EQ(without.choose().clock, MegaHertz{1000});
  const Broken broken;
  Clock nonsense(within(Span::s(10)), {}, &broken);
  nonsense.enter(request(1, 10, 10));
  EXPECT_EQ(nonsense.choose().clock, MegaHertz{1000});
}

TEST(ThrottllemClock, IdleKeepsTheClockOrParks) {
  Clock keeps(within(Span::ms(1400)));
  keeps.enter(request(1, 10, 100));
  EXPECT_EQ(keeps.choose().clock, MegaHertz{750});
  keeps.leave(request(1, 10, 100));
  EXPECT_EQ(keeps.choose().clock, MegaHertz{750});
  Clock parks(within(Span::ms(1400)), {.park_idle = true, .idle_clock = MegaHertz{500}});
  EXPECT_EQ(parks.choose().clock, MegaHertz{500});
  parks.enter(request(1, 10, 100));
  EXPECT_EQ(parks.choose().clock, MegaHertz{750});
}

TEST(ThrottllemClock, HoldsUntilSomebodyOutlivesItsPrediction) {
  Case options = within(Span::s(100));
  options.grace = 2;
  Clock clock(options, {.on_leave = true});
  clock.enter(request(1, 10, 5));
  clock.enter(request(2, 10, 50));
  clock.views[0].step.sequence = 1;
  clock.views[0].step.shape.decode_kv_tokens = 20;
  const auto decision = clock.choose();
  // Admitted between steps 0 and 1: five tokens in steps 1 to 5, two steps of grace, overdue at step 8.
  EXPECT_TRUE(decision.hold.covers(20 + 2 * 6, {}));
  EXPECT_FALSE(decision.hold.covers(20 + 2 * 7, {}));
}

TEST(ThrottllemClock, OfThoseThatKeepTheObjectivesTheOneThatTakesLeastEnergyWhereAsked) {
  /// Of which the floor makes low clocks expensive: at 1000 MHz a step's energy is 2, at 750 1.89, at 500 2.25.
  class Draw final : public PowerModel {
   public:
    [[nodiscard]] Milliwatts step_power(const StepShape&, MegaHertz clock) const override {
      const double x = clock.value() / 1000.0;
      return Milliwatts(static_cast<std::int64_t>(100'000.0 * (1.0 + x * x * x)));
    }
  };
  const Draw draw;
  const auto chosen = [&](ClockPick pick, const PowerModel* power, Span e2e) {
    Clock clock(within(e2e), {.pick = pick});
    clock.spec.beliefs.power = power;
    clock.enter(request(1, 10, 100));
    return clock.choose().clock;
  };
  EXPECT_EQ(chosen(ClockPick::Lowest, &draw, Span::s(10)), MegaHertz{500});
  EXPECT_EQ(chosen(ClockPick::LeastEnergy, &draw, Span::s(10)), MegaHertz{750});
  EXPECT_EQ(chosen(ClockPick::LeastEnergy, nullptr, Span::s(10)), MegaHertz{500}) << "nothing believed of power";
  EXPECT_EQ(chosen(ClockPick::LeastEnergy, &draw, Span::ms(1100)), MegaHertz{1000}) << "no lower one is in time";
}

TEST(ThrottllemFleet, KnowsWhoJoinsLateAndForgetsWhoIsGone) {
  Clock clock(within(Span::ms(1400)));
  InstanceView late;
  late.id = InstanceId{7};
  late.spec = &clock.spec;
  EXPECT_EQ(clock.policy.choose(late, {}).clock, MegaHertz{1410}) << "not of the fleet yet: what its GPU can do";
  clock.policy.observe(event::Joined{late}, {});
  clock.policy.observe(event::Started{request(1, 10, 100), late}, {});
  ASSERT_NE(clock.policy.board(late.id), nullptr);
  EXPECT_EQ(clock.policy.board(late.id)->size(), 1U);
  late.step.shape.decode_requests = 1;
  EXPECT_EQ(clock.policy.choose(late, {}).clock, MegaHertz{750});
  clock.policy.observe(event::Gone{late}, {});
  EXPECT_EQ(clock.policy.board(late.id), nullptr);
  clock.leave(request(1, 10, 100));  // its end comes after its instance's
}

}  // namespace
}  // namespace wattle::policy::throttllem_test
