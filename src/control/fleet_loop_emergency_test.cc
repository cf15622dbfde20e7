// The emergency ladder: what is predicted to miss its deadline, and what is done about it.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/random.h"
#include "control/fleet_loop.h"

namespace wattle::control {
namespace {

/// A prompt token takes 1 ms at 1000 MHz.
class Linear final : public LatencyModel {
 public:
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    return Span::us(1'000'000 / clock.value() * (shape.prefill_tokens + shape.decode_requests));
  }
};

const Linear kLinear;

InstanceSpec spec_of_pool(std::int32_t pool) {
  InstanceSpec spec;
  spec.gpu.clock_max = MegaHertz(1000);
  spec.pool = PoolId(pool);
  spec.beliefs.latency = &kLinear;
  return spec;
}

/// Engines that serve one request at a time; the test decides when one begins and ends.
class Engines final : public RequestPort {
 public:
  void start(const Request& request, Tag, const RouteDecision& at, Instant) override {
    ASSERT_TRUE(here.insert(request.id).second) << "served twice";
    ASSERT_FALSE(over.contains(request.id));
    queues[at.instance].push_back(request);
  }
  void hand_over(const Request&, Tag, InstanceId, const RouteDecision&, Instant) override {}
  Served refuse(const Request& request, Tag, Refusal why, const char*, Instant) override {
    EXPECT_FALSE(here.contains(request.id)) << "refused while an engine has it";
    EXPECT_TRUE(over.insert(request.id).second);
    refused[request.id] = why;
    return {};
  }
  void withdraw(const Request& request, Tag, InstanceId instance, Instant now) override {
    auto& queue = queues[instance];
    const RequestId id = request.id;
    const auto found = std::ranges::find(queue, id, &Request::id);
    const bool waits = found != queue.end() && found != queue.begin();
    if (waits) {
      queue.erase(found);
      here.erase(id);
    }
    loop->withdrawn(id, waits, now);
  }
  void boost(InstanceId instance, Instant until, Instant) override { boosted[instance] = until; }
  void refresh(InstanceId instance, Instant now) override {
    const auto& queue = queues[instance];
    StepReport report;
    report.instance = instance;
    report.start = now;
    report.clock = boosted[instance] > now ? MegaHertz(1000) : MegaHertz(500);
    report.shape.prefill_tokens = queue.empty() ? 0 : queue.front().prompt_tokens;
    report.waiting_requests = static_cast<std::int32_t>(queue.size()) - (queue.empty() ? 0 : 1);
    for (std::size_t i = 1; i < queue.size(); ++i) report.waiting_prompt_tokens += queue[i].prompt_tokens;
    loop->report(report, {});
  }
  /// Serves the first request of the queue.
  void serve(InstanceId instance, Instant now) {
    auto& queue = queues[instance];
    if (queue.empty()) return;
    const RequestId id = queue.front().id;
    queue.pop_front();
    here.erase(id);
    over.insert(id);
    loop->first_token(id, now);
    loop->leave(id, Fate::Finished, "", {}, now);
  }
  [[nodiscard]] std::vector<std::int64_t> order(std::int32_t instance) {
    std::vector<std::int64_t> ids;
    for (const Request& request : queues[InstanceId(instance)]) ids.push_back(request.id.value());
    return ids;
  }

  FleetLoop* loop = nullptr;
  std::map<InstanceId, std::deque<Request>> queues;
  std::map<InstanceId, Instant> boosted;
  std::map<RequestId, Refusal> refused;
  std::set<RequestId> here;
  std::set<RequestId> over;
};

class Steps final : public journal::Sink {
 public:
  void decision(const journal::DecisionRecord& record) override {
    if (record.kind == journal::DecisionKind::Emergency) steps.push_back(static_cast<journal::Rung>(record.value));
  }
  [[nodiscard]] std::int64_t count(journal::Rung rung) const { return std::ranges::count(steps, rung); }
  std::vector<journal::Rung> steps;
};

FleetLoopOptions watching(Mode mode = Mode::Enforce) {
  FleetLoopOptions options;
  options.slo.ttft = Span::s(1);
  options.service.objectives = Objectives(options.slo, {}, {}, {{"loose", {}, 10.0}, {"strict", {}, 1.0}});
  options.emergency.mode = mode;
  options.emergency.squash_after = Span::s(3);
  return options;
}

Request prompt(std::int64_t id, std::int32_t tokens, std::int32_t tier, Instant arrival) {
  Request request;
  request.id = RequestId(id);
  request.prompt_tokens = tokens;
  request.max_tokens = 10;
  request.tier = TierId(tier);
  request.arrival = arrival;
  return request;
}

/// Routes everything to instance 0 while it accepts requests.
class ToTheFirst final : public policy::RoutingPolicy {
 public:
  RouteDecision route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                      RandomStream&) override {
    return {candidates.front()->id, "the first"};
  }
};

struct Rig {
  explicit Rig(int instances, const FleetLoopOptions& options) {
    std::vector<InstanceView> views;
    for (int i = 0; i < instances; ++i) {
      InstanceView view;
      view.id = InstanceId(i);
      view.spec = &specs.emplace_back(spec_of_pool(0));
      views.push_back(view);
    }
    DispatchPolicies policies;
    policies.route_prefill = {std::make_shared<ToTheFirst>(), Mode::Enforce};
    loop = std::make_unique<FleetLoop>(std::move(views), std::move(policies), 1, options, engines, journal);
    engines.loop = loop.get();
  }
  void arrive(std::int64_t id, std::int32_t tokens, std::int32_t tier = 1) {
    loop->arrive(prompt(id, tokens, tier, now), 0, now);
  }
  void tick() {
    now = std::max(now, loop->next_tick());
    loop->tick(now);
  }
  std::deque<InstanceSpec> specs;
  Engines engines;
  Steps journal;
  std::unique_ptr<FleetLoop> loop;
  Instant now;
};

using journal::Rung;

TEST(Emergency, NothingIsDoneWhereNothingIsPredictedToMiss) {
  Rig rig(2, watching());
  EXPECT_EQ(rig.loop->next_tick(), Instant::never());
  rig.arrive(1, 100);
  rig.arrive(2, 100);
  rig.tick();
  EXPECT_TRUE(rig.journal.steps.empty());
  EXPECT_EQ(rig.engines.order(0), (std::vector<std::int64_t>{1, 2}));
}

TEST(Emergency, EachStepIsTakenOnlyWhereThoseBeforeItDoNotSuffice) {
  Rig rig(2, watching());
  // At 500 MHz a token takes 2 ms. Request 1 is being computed, 2 has time left, 3 has none.
  rig.arrive(1, 100, 0);
  rig.arrive(2, 300, 0);
  rig.arrive(3, 100);
  rig.tick();
  EXPECT_TRUE(rig.journal.steps.empty()) << "3 is in time at 200 + 600 + 200 ms";
  rig.arrive(4, 300);
  rig.tick();
  EXPECT_EQ(rig.journal.steps, std::vector{Rung::Reorder});
  EXPECT_EQ(rig.engines.order(0), (std::vector<std::int64_t>{1, 3, 4, 2}));
  rig.tick();  // request 4 would still be late at 500 MHz
  EXPECT_EQ(rig.journal.steps, (std::vector{Rung::Reorder, Rung::Boost}));
  EXPECT_GT(rig.engines.boosted[InstanceId(0)], rig.now);
}

TEST(Emergency, ABacklogGoesToASiblingAndWhatNobodyCanServeInTimeIsGivenBack) {
  Rig rig(2, watching());
  for (std::int64_t id = 1; id <= 6; ++id) rig.arrive(id, 400);
  rig.tick();  // the order is right already, so the clock is raised
  EXPECT_EQ(rig.journal.steps, std::vector{Rung::Boost});
  rig.tick();
  EXPECT_GE(rig.journal.count(Rung::Resteer), 1);
  EXPECT_FALSE(rig.engines.order(1).empty());
  EXPECT_EQ(rig.engines.order(0).size() + rig.engines.order(1).size(), 6U);
  EXPECT_EQ(rig.journal.count(Rung::Squash), 0) << "nobody has waited for that long";
  rig.now = Instant() + Span::s(4);
  rig.tick();
  rig.tick();
  EXPECT_EQ(rig.engines.order(0).size(), 1U) << "what has begun goes on";
  for (const auto& [id, why] : rig.engines.refused) EXPECT_EQ(why, Refusal::Squashed) << id.value();
  EXPECT_EQ(rig.journal.count(Rung::Squash), static_cast<std::int64_t>(rig.engines.refused.size()));
  EXPECT_EQ(rig.loop->counts().rejected, rig.journal.count(Rung::Squash));
}

TEST(Emergency, HeldRequestsAreServedByDeadlineAndGivenBackAfterTooLong) {
  Rig rig(1, watching());
  rig.loop->set_accepting(InstanceId(0), false, rig.now);
  rig.arrive(1, 100, 0);
  rig.arrive(2, 100, 1);
  rig.arrive(3, 100, 1);
  rig.now = Instant() + Span::s(2);
  rig.tick();
  EXPECT_EQ(rig.journal.steps, std::vector{Rung::Reorder});
  rig.now = Instant() + Span::ms(3500);
  rig.tick();
  EXPECT_EQ(rig.engines.refused.size(), 2U) << "1 has ten seconds";
  rig.loop->set_accepting(InstanceId(0), true, rig.now);
  EXPECT_EQ(rig.engines.order(0), (std::vector<std::int64_t>{1}));
}

TEST(Emergency, HeldRequestsMayBeGivenBackByWhatTheirObjectivesLeave) {
  auto options = watching();
  options.emergency.squash_after = Span::max();
  options.emergency.squash_after_objectives = 2.0;
  Rig rig(1, options);
  rig.loop->set_accepting(InstanceId(0), false, rig.now);
  rig.arrive(1, 100, 0);  // TTFT of 10 s
  rig.arrive(2, 100, 1);  // 1 s
  EXPECT_TRUE(rig.loop->will_squash());
  const auto refused_by = [&](double seconds) {
    rig.now = Instant() + Span::from_seconds(seconds);
    rig.tick();
    return rig.engines.refused.size();
  };
  EXPECT_EQ(refused_by(1.9), 0U);
  EXPECT_EQ(refused_by(2.1), 1U);
  EXPECT_EQ(refused_by(19.0), 1U);
  EXPECT_EQ(refused_by(20.1), 2U);
  EXPECT_EQ(rig.journal.count(Rung::Squash), 2);
}

TEST(Emergency, ShadowSaysWhatItWouldDoAndDoesNothing) {
  Rig rig(2, watching(Mode::Shadow));
  for (std::int64_t id = 1; id <= 6; ++id) rig.arrive(id, 400);
  rig.tick();
  rig.tick();
  rig.now = Instant() + Span::s(5);
  rig.tick();
  EXPECT_GE(rig.journal.count(Rung::Boost), 1);
  EXPECT_EQ(rig.engines.order(0).size(), 6U);
  EXPECT_TRUE(rig.engines.refused.empty());
  EXPECT_TRUE(rig.engines.boosted[InstanceId(0)] <= Instant());
}

TEST(Emergency, AClassIsShedByTheShareThatAPlanDoesNotServe) {
  auto options = watching();
  options.service.classes = Classifier({1000}, {});
  Rig rig(1, options);
  const std::vector<PoolWeight> weights{{ClassId(0), PoolId(0), 0.75}, {ClassId(1), PoolId(0), 1.0}};
  rig.loop->reroute(weights, rig.now);
  for (std::int64_t id = 1; id <= 8; ++id) rig.arrive(id, id <= 4 ? 10 : 2000);
  EXPECT_EQ(rig.engines.refused.size(), 1U);
  EXPECT_EQ(rig.journal.count(Rung::Shed), 1);
  rig.loop->reroute({}, rig.now);
  for (std::int64_t id = 11; id <= 18; ++id) rig.arrive(id, 10);
  EXPECT_EQ(rig.engines.refused.size(), 1U);
}

/// Random arrivals, services, deaths and new instances: every request ends exactly once, on one engine at a time.
TEST(Emergency, NoRequestIsLostOrServedTwice) {
  std::int64_t steps = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    RandomStream random(seed, "emergency");
    auto options = watching();
    options.emergency.squash_after = Span::ms(1500);
    Rig rig(3, options);
    std::int64_t sent = 0;
    std::int32_t alive = 3;
    for (int i = 0; i < 150; ++i) {
      rig.now = rig.now + Span::ms(static_cast<std::int64_t>(random.below(80)));
      const auto dice = random.below(20);
      const auto& views = rig.loop->instances();
      const InstanceId some = views[random.below(views.size())].id;
      if (dice < 9) {
        rig.arrive(++sent, 1 + static_cast<std::int32_t>(random.below(500)),
                   static_cast<std::int32_t>(random.below(2)));
      } else if (dice < 15) {
        rig.engines.serve(some, rig.now);
      } else if (dice < 17) {
        rig.loop->set_accepting(some, random.below(3) > 0, rig.now);
      } else if (dice == 17 && alive > 1) {
        --alive;
        rig.loop->set_accepting(some, false, rig.now);
        auto lost = std::exchange(rig.engines.queues[some], {});
        for (const Request& request : lost) {
          rig.engines.here.erase(request.id);
          rig.engines.over.insert(request.id);
          rig.loop->leave(request.id, Fate::Failed, "the instance died", {}, rig.now);
        }
        rig.loop->remove_instance(some, rig.now);
      } else if (dice == 18) {
        ++alive;
        InstanceView view;
        view.spec = &rig.specs.emplace_back(spec_of_pool(0));
        rig.loop->add_instance(view, rig.now);
      }
      if (rig.loop->next_tick() <= rig.now) rig.loop->tick(rig.now);
      ASSERT_EQ(rig.loop->counts().in_flight + static_cast<std::int64_t>(rig.engines.over.size()), sent) << seed;
      ASSERT_EQ(rig.loop->counts().dispatched(), static_cast<std::int64_t>(rig.engines.here.size())) << seed;
    }
    steps += static_cast<std::int64_t>(rig.journal.steps.size());
    for (const InstanceView& view : rig.loop->instances()) {
      EXPECT_EQ(view.assigned_requests, static_cast<std::int32_t>(rig.engines.queues[view.id].size()));
    }
  }
  EXPECT_GT(steps, 1000);
}

}  // namespace
}  // namespace wattle::control
