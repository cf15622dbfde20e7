#include "managers/instance_manager.h"

#include <gtest/gtest.h>

#include "managers/managers_rig_test.h"
#include "managers/tiers.h"

namespace wattle::managers {
namespace {

StepReport report(std::int64_t sequence, Instant start, std::int64_t prefill, std::int32_t prompts,
                  std::int32_t decodes) {
  StepReport step;
  step.sequence = sequence;
  step.start = start;
  step.shape.prefill_tokens = prefill;
  step.shape.prefill_requests = prompts;
  step.shape.decode_requests = decodes;
  return step;
}

TEST(InstanceManager, TakesTheLeastEnergyOfTheClocksThatCarryTheLoad) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  const auto& one = table->classes[0];
  InstanceSpec spec;
  spec.tensor_parallel = 4;
  spec.gpu.clock_max = MegaHertz(1980);
  const auto clock_at = [&](double load, double margin) {
    InstanceManagerOptions options;
    options.margin = margin;
    InstanceManager manager(options, table, spec);
    InstanceView view;
    view.spec = &spec;
    view.telemetry = Telemetry::Fresh;
    // Prompts arrive at the load; a step each.
    ClockDecision decision;
    const double gap = 1.0 / load;
    for (int i = 0; i < static_cast<int>(300.0 * load); ++i) {
      const Instant now = Instant() + Span::from_seconds(gap * i);
      view.step = report(i, now, static_cast<std::int64_t>(one.prompt_tokens), 1, 0);
      decision = manager.choose(view, now);
    }
    EXPECT_NEAR(manager.load_per_s(), load, 0.25 * load);
    return decision.clock;
  };
  const double most = plan::most_load(one, 4, MegaHertz(1980));
  EXPECT_EQ(clock_at(0.98 * most, 0.1), MegaHertz(1980));
  const MegaHertz calm = clock_at(0.2 * most, 0.1);
  EXPECT_LT(calm, MegaHertz(1980));
  // No clock of less power at that load keeps the limits.
  for (const auto& profile : one.profiles) {
    if (profile.tp != 4) continue;
    const auto most_here = plan::most_load(profile, one.limits);
    const auto point = plan::at_load(profile, 0.2 * most);
    if (!most_here || *most_here * 0.9 < 0.25 * most || !point) continue;
    const auto chosen = std::ranges::find_if(one.profiles, [&](const auto& p) { return p.tp == 4 && p.clock == calm; });
    EXPECT_GE(point->power.value() * 1.02, plan::at_load(*chosen, 0.2 * most)->power.value());
  }
}

TEST(InstanceManager, AnInstanceThatHasJustStartedKnowsItsLoad) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  const auto& one = table->classes[0];
  InstanceSpec spec;
  spec.tensor_parallel = 4;
  const double load = 0.98 * plan::most_load(one, 4, MegaHertz(1980));
  InstanceManager manager({}, table, spec);
  InstanceView view;
  view.spec = &spec;
  view.telemetry = Telemetry::Fresh;
  MegaHertz clock;
  for (int i = 0; i / load < 7.0; ++i) {
    const Instant now = Instant() + Span::from_seconds(i / load);
    view.step = report(i, now, static_cast<std::int64_t>(one.prompt_tokens), 1, 0);
    clock = manager.choose(view, now).clock;
  }
  EXPECT_NEAR(manager.load_per_s(), load, 0.25 * load);
  EXPECT_EQ(clock, MegaHertz(1980));
}

TEST(InstanceManager, DecidesOncePerEpochAndFearsSilence) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  InstanceSpec spec;
  spec.tensor_parallel = 8;
  spec.pool = PoolId(2);
  InstanceManager manager({}, table, spec);
  InstanceView view;
  view.spec = &spec;
  EXPECT_EQ(manager.choose(view, Instant()).clock, MegaHertz(1980));
  view.telemetry = Telemetry::Fresh;
  EXPECT_EQ(manager.choose(view, Instant() + Span::s(4)).clock, MegaHertz(1980));
  const auto later = manager.choose(view, Instant() + Span::s(5));
  EXPECT_LT(later.clock, MegaHertz(1980)) << "no load at all";
  EXPECT_EQ(later.hold.until, Instant::never()) << "nothing changes that before there is work";
  view.step.shape.decode_requests = 1;
  EXPECT_EQ(manager.choose(view, Instant() + Span::ms(5500)).hold.until, Instant() + Span::s(10));
  view.telemetry = Telemetry::Lost;
  EXPECT_EQ(manager.choose(view, Instant() + Span::s(6)).clock, MegaHertz(1980));
}

TEST(InstanceManager, IdleTheClockFallsWithTheLoadThatIsRemembered) {
  auto table = std::make_shared<const plan::LoadTable>(formula_table());
  const auto& one = table->classes[0];
  InstanceSpec spec;
  spec.tensor_parallel = 4;
  InstanceManager manager({}, table, spec);
  InstanceView view;
  view.spec = &spec;
  view.telemetry = Telemetry::Fresh;
  Instant now;
  const double load = 0.98 * plan::most_load(one, 4, MegaHertz(1980));
  for (int i = 0; i / load < 60.0; ++i) {
    now = Instant() + Span::from_seconds(i / load);
    view.step = report(i, now, static_cast<std::int64_t>(one.prompt_tokens), 1, 0);
    manager.choose(view, now);
  }
  view.telemetry = Telemetry::Idle;
  view.step.shape = {};
  ClockDecision decision = manager.choose(view, now);
  EXPECT_EQ(decision.clock, MegaHertz(1980));
  int asked = 0;
  for (; decision.hold.until != Instant::never() && asked < 1000; ++asked) {
    now = decision.hold.until;
    decision = manager.choose(view, now);
  }
  EXPECT_GT(asked, 1);
  EXPECT_LT(asked, 1000) << "asked for ever";
  EXPECT_LT(decision.clock, MegaHertz(1980));
}

TEST(Tiers, ShareAPoolUnlessApartIsCheaper) {
  auto table = formula_table();
  const auto& one = table.classes[2];
  const plan::ShardLimits same = one.limits;
  const auto alike = split_tiers(one, {{2.0, same}, {1.0, same}}, 64, Watts());
  ASSERT_TRUE(alike.has_value());
  EXPECT_LE(alike->split.value(), alike->one_pool.value() + 1e-9);
  // A strict tier of few requests: the many need not pay for it.
  const plan::ShardLimits strict{same.ttft, Span::from_seconds(same.tbt.seconds() * 0.45)};
  const auto apart = split_tiers(one, {{8.0, same}, {0.1, strict}}, 64, Watts());
  ASSERT_TRUE(apart.has_value());
  EXPECT_NE(apart->pool_of[0], apart->pool_of[1]);
  EXPECT_LT(apart->split, apart->one_pool);
  EXPECT_FALSE(split_tiers(one, {}, 8, Watts()).has_value());
}

TEST(InstanceManager, WithoutStepReportsTheLoadIsWhatStreamsBring) {
  const auto table = std::make_shared<const plan::LoadTable>(formula_table());
  const auto& one = table->classes[0];
  InstanceSpec spec;
  spec.tensor_parallel = 4;
  spec.gpu.clock_max = MegaHertz(1980);
  const double most = plan::most_load(one, 4, MegaHertz(1980));
  const auto clock_at = [&](double load, bool counted) {
    InstanceManager manager({}, table, spec);
    InstanceView view;
    view.spec = &spec;
    view.telemetry = Telemetry::Fresh;
    view.step = report(-1, Instant(), 0, 0, 3);
    ClockDecision decision;
    for (int i = 0; i < 3000; ++i) {  // looks, each with the share of a prompt that comes in 0.1 s
      view.step.start = Instant() + Span::ms(100) * i;
      if (counted) {
        manager.delivered({.prompts = 1,
                           .prompt_tokens = static_cast<std::int64_t>(0.1 * load * one.prompt_tokens),
                           .tokens = static_cast<std::int64_t>(0.1 * load * one.output_tokens)});
      }
      decision = manager.choose(view, view.step.start);
    }
    EXPECT_NEAR(manager.load_per_s(), counted ? load : 0.0, 0.1 * load + 0.2);
    return decision.clock;
  };
  EXPECT_EQ(clock_at(0.98 * most, true), MegaHertz(1980));
  EXPECT_LT(clock_at(0.2 * most, true), MegaHertz(1980));
  EXPECT_EQ(clock_at(0.2 * most, false), MegaHertz(1980)) << "there is work, and nobody counts it";
}

}  // namespace
}  // namespace wattle::managers
