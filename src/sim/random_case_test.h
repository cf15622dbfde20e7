#pragma once
// Tests only: random fleets and requests, a run of one with all checkers on, and the comparison of two runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/hardware_profile.h"
#include "policy/admission/bounded.h"
#include "policy/queueing/laxity.h"
#include "sim/simulation.h"
#include "workload/shared_prefixes.h"
#include "workload/source.h"

namespace wattle::sim {

/// Clock by batch and KV thresholds, with the longest hold that is still exact: what a real policy does, without
/// belief.
class ThresholdPolicy final : public policy::FrequencyPolicy {
 public:
  ThresholdPolicy(std::int32_t batch, std::int64_t kv, bool dwells) : batch_(batch), kv_(kv), dwells_(dwells) {}
  ClockDecision choose(const InstanceView& view, Instant now) override {
    const auto& shape = view.step.shape;
    if (shape.idle()) return {MegaHertz(210), "idle", Hold::forever()};
    if (dwells_ && now < quiet_until_)
      return {last_, "dwell", {std::numeric_limits<std::int64_t>::max(), quiet_until_}};
    const bool high = view.step.waiting_requests > 0 || shape.prefill_tokens > 0 || shape.decode_requests > batch_ ||
                      shape.decode_kv_tokens > kv_;
    const MegaHertz clock = high ? MegaHertz(1410) : MegaHertz(1005);
    if (clock != last_) quiet_until_ = now + Span::ms(200);
    last_ = clock;
    const bool by_kv = shape.decode_kv_tokens <= kv_;
    return {clock, high ? "high" : "low", {by_kv ? kv_ : std::numeric_limits<std::int64_t>::max(), Instant::never()}};
  }
  ClockDecision overrun(const InstanceView&, Instant now) override {
    quiet_until_ = now + Span::ms(200);
    last_ = MegaHertz(1410);
    return {last_, "overrun", {}};
  }

 private:
  std::int32_t batch_;
  std::int64_t kv_;
  bool dwells_;
  MegaHertz last_;
  Instant quiet_until_;
};

/// Wants now this, now that: what a flapping plan does to a fleet.
class Restless final : public policy::ScalingPolicy {
 public:
  Restless(std::uint64_t seed, std::size_t shapes) : random_(seed, "restless"), wanted_(shapes, 0) { wanted_[0] = 1; }
  Plan plan(const policy::ScalingView&) override {
    if (random_.below(3) == 0) {
      for (auto& w : wanted_) w = 0;
      wanted_[random_.below(wanted_.size())] = 1 + static_cast<std::int32_t>(random_.below(2));
    }
    return Plan::of(wanted_, "restless");
  }

 private:
  RandomStream random_;
  std::vector<std::int32_t> wanted_;
};

/// The truth, off by a factor: what a predictor is before it has learnt.
class Guess final : public LatencyModel {
 public:
  Guess(const engine::StepModel& truth, double factor) : truth_(truth), factor_(factor) {}
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    const engine::DecodeLine line = truth_.decode(std::max(1, shape.decode_requests), shape.decode_kv_tokens, clock);
    const auto fixed = shape.prefill_tokens > 0 ? truth_.mixed(shape, clock).duration
                                                : line.base + line.slope * shape.decode_kv_tokens;
    return Span::from_seconds(factor_ * 1e-9 * static_cast<double>(fixed >> engine::kTimeFractionBits));
  }
  [[nodiscard]] double factor() const { return factor_; }

 private:
  const engine::StepModel& truth_;
  double factor_;
};

/// Scales by what it was off on average.
inline predict::LatencyRefit relearn(const engine::StepModel& truth, std::shared_ptr<const Guess> first) {
  return [&truth, first](std::span<const predict::StepSample> served) -> Result<std::shared_ptr<const LatencyModel>> {
    double ratio = 0.0;
    for (const auto& s : served) ratio += s.duration.seconds() / first->step_time(s.shape, s.clock).seconds();
    return std::make_shared<const Guess>(truth, first->factor() * ratio / static_cast<double>(served.size()));
  };
}

/// Step models of instances with so many GPUs each.
struct StepModels {
  explicit StepModels(std::span<const std::int32_t> gpus) {
    for (const std::int32_t of : gpus) {
      auto model = engine::StepModel::make(GpuSpec{}, LlmSpec{}, of, engine::HardwareProfile{}, {});
      EXPECT_TRUE(model.has_value());
      models.push_back(std::make_unique<engine::StepModel>(std::move(*model)));
    }
  }
  std::vector<std::unique_ptr<engine::StepModel>> models;
};

/// At least 20 Poisson arrivals and up to `more` above that, of 1 to so many tokens.
inline std::vector<workload::TraceRow> random_rows(RandomStream& random, std::uint64_t more, double per_s,
                                                   std::uint64_t prompt, std::uint64_t output) {
  std::vector<workload::TraceRow> rows;
  double t = 0.0;
  for (std::uint64_t n = 20 + random.below(more); n > 0; --n) {
    t += random.exponential() / per_s;
    rows.push_back({Instant(Span::from_seconds(t).ns()), 1 + static_cast<std::int32_t>(random.below(prompt)),
                    1 + static_cast<std::int32_t>(random.below(output))});
  }
  return rows;
}

/// How often is planned, and what starts take.
inline void draw_times(ScalingSetup& scaling, RandomStream& random, std::int64_t least_period_ms,
                       std::uint64_t more_ms) {
  scaling.period = Span::ms(least_period_ms + static_cast<std::int64_t>(random.below(more_ms)));
  scaling.load_time = Span::ms(static_cast<std::int64_t>(random.below(1500)));
  scaling.warm_time = Span::ms(random.below(2) == 0 ? 0 : 300);
}

/// So many of instances and nodes, for a while or for good, until `end_s`. The last node stays up, so that nobody is
/// left behind for good.
inline void draw_faults(SimulationSetup& setup, RandomStream& random, std::uint64_t faults, double end_s,
                        std::int32_t nodes) {
  for (; faults > 0; --faults) {
    Fault fault{Instant(Span::from_seconds(end_s * random.uniform()).ns()),
                InstanceId(static_cast<std::int32_t>(random.below(12))),
                Span::ms(700),
                {}};
    if (random.below(3) == 0) {
      fault.node = NodeId(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(nodes - 1))));
      fault.down = random.below(4) == 0 ? Span::max() : Span::ms(static_cast<std::int64_t>(random.below(3000)));
    }
    if (RandomStream(setup.seed + faults, "hot").below(4) == 0) fault.clock_share = 0.5;
    setup.faults.push_back(fault);
  }
}

struct Case {
  std::uint64_t seed = 0;
  std::vector<workload::TraceRow> rows;
  int prefill = 0, decode = 0, colocated = 1;
  engine::EngineOptions engine;
  engine::LinkOptions link;
  engine::ClockDelays delays;
  std::int32_t threshold_batch = 0;
  std::int64_t threshold_kv = 0;
  bool dwells = false;
  std::vector<Fault> faults;
  double memory_bytes = 0;
  bool scaled = false;
  Span plan_period = Span::s(2);
  Span load = Span::ms(1500);
  Span warm = Span::ms(300);
  std::function<std::unique_ptr<policy::ScalingPolicy>()> policy;  ///< of a scaled fleet
  double belief = 0.0;                                             ///< what the predictor is off by; 0: there is none
  Span overrun_slack = Span::max();
  bool learns = false;
  control::EmergencyOptions emergency;
  Service service;
  std::vector<std::vector<Span>> round_trips;
  std::int64_t in_flight = 3;
  Span margin = Span::ms(20);
  bool displacing = false;  ///< few run at once, and one more urgent takes the place of another
  TelemetrySource telemetry = TelemetrySource::StepStarts;
};

inline Case draw(std::uint64_t seed) {
  RandomStream random(seed, "case");
  Case c;
  c.seed = seed;
  if (random.below(2) == 0) {
    c.colocated = 0;
    c.prefill = 1 + static_cast<int>(random.below(2));
    c.decode = 1 + static_cast<int>(random.below(3));
  } else {
    c.colocated = 1 + static_cast<int>(random.below(3));
  }
  c.engine.chunked_prefill = random.below(4) != 0;
  c.engine.block_size = random.below(2) == 0 ? 16 : 1 + static_cast<std::int32_t>(random.below(40));
  c.engine.max_num_seqs = random.below(3) == 0 ? 1 + static_cast<std::int32_t>(random.below(12)) : 256;
  c.engine.max_num_batched_tokens = 64 + static_cast<std::int32_t>(random.below(4000));
  // From a cache that holds two requests to one that never fills.
  c.memory_bytes = random.below(2) == 0 ? 80e9 : 20.3e9 + 1e9 * random.uniform();
  if (random.below(3) == 0) c.link.bandwidth_bytes_per_s = 0.0;
  if (random.below(4) == 0) c.delays = {Span(), Span()};
  c.threshold_batch = static_cast<std::int32_t>(random.below(20));
  c.threshold_kv = static_cast<std::int64_t>(random.below(20000));
  c.dwells = random.below(2) == 0;
  if (RandomStream drafts(seed, "drafts"); drafts.below(5) == 0) {
    c.engine.speculative_tokens = 1 + static_cast<std::int32_t>(drafts.below(4));
    c.engine.acceptance_rate = 0.9 * drafts.uniform();
    c.engine.draft_share = 0.2 * drafts.uniform();
  }
  RandomStream handing(seed, "handing");
  if (handing.below(2) == 0) c.link.handoff_steps = 8.0 * handing.uniform();
  RandomStream queue(seed, "queue");
  c.displacing = queue.below(3) == 0;
  RandomStream beliefs(seed, "beliefs");
  if (beliefs.below(2) == 0) {
    c.belief = 0.5 + beliefs.uniform();
    if (beliefs.below(3) != 0) c.overrun_slack = Span::us(static_cast<std::int64_t>(beliefs.below(6'000)));
    c.learns = beliefs.below(3) != 0;
  }
  RandomStream emergencies(seed, "emergencies");
  if (emergencies.below(2) == 0) {
    const auto ms = [&](std::uint64_t most) {
      return Span::ms(1 + static_cast<std::int64_t>(emergencies.below(most)));
    };
    c.emergency = {Mode::Enforce, ms(200), ms(2000), emergencies.below(4) == 0 ? Span::max() : ms(3000)};
    c.service.classes = Classifier({100}, {30, 100});
    Slo fleet;
    fleet.ttft = ms(1000);
    fleet.itl = Span::ms(20);
    c.service.objectives = Objectives(fleet, {}, {}, {{"strict", {}, 1.0}, {"loose", {}, 5.0}});
    c.service.tenants = {{"a", TierId(0), SiteId(), 0, 2.0}, {"b", TierId(1), SiteId(), 1, 1.0}};
  }
  c.telemetry = static_cast<TelemetrySource>(RandomStream(seed, "reports").below(4));
  double t = 0.0;
  const double rate = 0.5 + 30.0 * random.uniform();
  const auto n = 20 + random.below(120);
  for (std::uint64_t i = 0; i < n; ++i) {
    if (random.below(8) != 0) t += random.exponential() / rate;  // one in eight arrives together with the one before
    const auto prompt = 1 + static_cast<std::int32_t>(random.below(random.below(5) == 0 ? 6000 : 600));
    const auto output = 1 + static_cast<std::int32_t>(random.below(random.below(5) == 0 ? 900 : 120));
    c.rows.push_back({Instant(Span::from_seconds(t).ns()), prompt, output});
  }
  if (RandomStream(seed, "prompts").below(2) == 0) {
    std::vector<workload::TraceRow> known;
    const auto source =
        workload::with_prefixes(std::make_unique<workload::ListSource>(c.rows), {0.5, 3, 256, 0.5, 8}, seed);
    while (auto row = source->next()) known.push_back(std::move(*row));
    c.rows = std::move(known);
  }
  if (random.below(3) == 0) {
    const auto fleet = static_cast<std::uint64_t>(c.colocated + c.prefill + c.decode);
    c.faults.push_back({Instant(Span::from_seconds(t * random.uniform()).ns()),
                        InstanceId(static_cast<std::int32_t>(random.below(fleet))), Span::ms(700)});
    if (RandomStream(seed, "hot").below(2) == 0) c.faults.back().clock_share = 0.3;
  }
  if (c.colocated > 0 && random.below(2) == 0) {
    c.scaled = true;
    c.policy = [seed] { return std::make_unique<Restless>(seed, 2); };
    c.plan_period = Span::ms(300 + static_cast<std::int64_t>(random.below(2000)));
    c.load = Span::ms(static_cast<std::int64_t>(random.below(3000)));
    c.warm = random.below(2) == 0 ? Span() : Span::ms(500);
    // Of those that come later, too: while they start, serve or drain.
    for (std::int32_t id = 0; id < 12 && random.below(2) == 0; ++id) {
      c.faults.push_back({Instant(Span::from_seconds(t * random.uniform()).ns()), InstanceId(id), Span::ms(700)});
    }
  }
  return c;
}

struct Played {
  SimulationResult result;
  std::map<std::int64_t, Outcome> outcomes;
  std::vector<Outcome> left_behind;
  std::vector<journal::DecisionRecord> phases;
  std::vector<journal::Sample> samples;
  std::int64_t steps_in_stretches = 0;
};

class Collect final : public journal::Sink {
 public:
  explicit Collect(Played& into) : into_(into) {}
  void left_behind(const Outcome& o) override { into_.left_behind.push_back(o); }
  void outcome(const Outcome& o) override {
    EXPECT_TRUE(into_.outcomes.emplace(o.request.id.value(), o).second) << "left twice";
  }
  void decision(const journal::DecisionRecord& d) override {
    if (d.kind == journal::DecisionKind::Phase) into_.phases.push_back(d);
  }
  void sample(const journal::Sample& s) override { into_.samples.push_back(s); }
  void stretch(const journal::Stretch& s) override { into_.steps_in_stretches += s.steps; }

 private:
  Played& into_;
};

inline Played play(const Case& c, bool fast_forward, bool sampled = false) {
  GpuSpec gpu;
  gpu.memory_bytes = c.memory_bytes;
  const auto model = engine::StepModel::make(gpu, LlmSpec{}, 1, engine::HardwareProfile{}, c.engine);
  EXPECT_TRUE(model.has_value()) << model.error().message();
  const auto larger = engine::StepModel::make(gpu, LlmSpec{}, 2, engine::HardwareProfile{}, c.engine);
  workload::ListSource source(c.rows);
  SimulationSetup setup;
  setup.engine = c.engine;
  setup.link = c.link;
  setup.clock_delays = c.delays;
  setup.telemetry = c.telemetry;
  setup.slo.ttft = Span::ms(600);
  setup.slo.itl = Span::ms(20);
  setup.service = c.service;
  setup.emergency = c.emergency;
  setup.source = &source;
  setup.faults = c.faults;
  setup.fast_forward = fast_forward;
  setup.check_invariants = true;
  setup.stretches = true;
  setup.sample_period = sampled ? Span::ms(37) : Span();
  setup.round_trips = c.round_trips;
  setup.fairness = FairnessBasis{{Span::ms(50), Span::ms(10)}, 1.4, 5.0};
  if (c.displacing) {
    policy::ServiceOptions urgency;
    urgency.ttft = Span::ms(50);
    urgency.tbt = Span::ms(10);
    urgency.preemptive = true;
    urgency.margin = c.margin;
    setup.length_hint = std::make_unique<predict::LengthOracle>(0.0, c.seed);
    setup.policies.queueing.policy = std::make_shared<policy::LeastLaxityFirst>(urgency);
    setup.policies.admission.policy =
        std::make_shared<policy::BoundedAdmission>(policy::BoundedAdmissionOptions{c.in_flight, 100'000});
  }
  const auto guess = std::make_shared<const Guess>(*model, c.belief);
  predict::OnlineOptions online;
  online.refit_every = 30;
  online.ring = 60;
  online.window = 10;
  predict::OnlineLatency learner(guess, relearn(*model, guess), online);
  setup.refit_delay = Span::ms(20);
  const auto add = [&](Role role, int count) {
    for (int i = 0; i < count; ++i) {
      InstanceSetup instance;
      instance.id = InstanceId(static_cast<std::int32_t>(setup.instances.size()));
      InstanceSpec spec;
      spec.role = role;
      instance.model = &*model;
      instance.initial_clock = MegaHertz(1410);
      instance.frequency.policy = std::make_unique<ThresholdPolicy>(c.threshold_batch, c.threshold_kv, c.dwells);
      if (c.belief > 0.0) spec.beliefs.latency = c.learns ? static_cast<const LatencyModel*>(&learner) : guess.get();
      instance.spec = std::make_shared<const InstanceSpec>(spec);
      instance.overrun_slack = c.overrun_slack;
      if (c.learns) instance.learner = &learner;
      setup.instances.push_back(std::move(instance));
    }
  };
  add(Role::Colocated, c.colocated);
  if (c.scaled) {
    setup.scaling.policy.policy = c.policy();
    setup.scaling.period = c.plan_period;
    setup.scaling.load_time = c.load;
    setup.scaling.warm_time = c.warm;
    setup.scaling.shape_of.assign(setup.instances.size(), 0);
    for (const auto* shape : {&*model, &*larger}) {
      const auto make = [&c, shape, gpus = shape == &*model ? 1 : 2](InstanceId id) {
        InstanceSetup instance;
        instance.id = id;
        InstanceSpec spec;
        spec.tensor_parallel = gpus;
        instance.spec = std::make_shared<const InstanceSpec>(spec);
        instance.model = shape;
        instance.initial_clock = MegaHertz(1410);
        instance.frequency.policy = std::make_unique<ThresholdPolicy>(c.threshold_batch, c.threshold_kv, c.dwells);
        return instance;
      };
      setup.scaling.shapes.push_back({shape == &*model ? 1 : 2, 1.0, make});
    }
  }
  add(Role::Prefill, c.prefill);
  add(Role::Decode, c.decode);
  Played r;
  Collect collect(r);
  setup.sink = &collect;
  r.result = simulate(std::move(setup));
  return r;
}

inline void expect_equal(const Played& a, const Played& b) {
  const auto& x = a.result.summary;
  const auto& y = b.result.summary;
  EXPECT_EQ(x.journal_digest, y.journal_digest);
  EXPECT_EQ(x.energy.total.value(), y.energy.total.value());
  EXPECT_EQ(x.energy.prefill.value(), y.energy.prefill.value());
  EXPECT_EQ(x.energy.idle.value(), y.energy.idle.value());
  EXPECT_EQ(x.carbon.value(), y.carbon.value());
  EXPECT_EQ(x.itl.count, y.itl.count);
  EXPECT_EQ(x.itl.mean_ms, y.itl.mean_ms);
  EXPECT_EQ(x.itl.p99_ms, y.itl.p99_ms);
  EXPECT_TRUE(x.itl.count == 0 || x.slo.itl == y.slo.itl);
  EXPECT_TRUE(x.requests.arrived == 0 || x.slo.all == y.slo.all);
  EXPECT_EQ(x.sim.iterations, y.sim.iterations);
  EXPECT_EQ(x.requests.preemptions, y.requests.preemptions);
  EXPECT_EQ(x.tokens.cached_prompt, y.tokens.cached_prompt);
  EXPECT_EQ(x.overruns, y.overruns);
  EXPECT_EQ(x.prediction.decode.samples, y.prediction.decode.samples);
  EXPECT_EQ(x.prediction.decode.active_ms, y.prediction.decode.active_ms);
  EXPECT_EQ(x.prediction.prefill.active_ms, y.prediction.prefill.active_ms);
  EXPECT_EQ(x.prediction.adopted, y.prediction.adopted);
  EXPECT_EQ(x.prediction.rolled_back, y.prediction.rolled_back);
  ASSERT_EQ(a.outcomes.size(), b.outcomes.size());
  for (const auto& [id, o] : a.outcomes) {
    const auto& p = b.outcomes.at(id);
    EXPECT_EQ(o.left, p.left) << "request " << id;
    EXPECT_EQ(o.first_token, p.first_token) << "request " << id;
    EXPECT_EQ(o.gaps_within_itl, p.gaps_within_itl) << "request " << id;
    EXPECT_EQ(o.longest_gap, p.longest_gap) << "request " << id;
    EXPECT_EQ(o.output_tokens, p.output_tokens) << "request " << id;
    EXPECT_TRUE(o.energy == p.energy) << "request " << id;
  }
}

}  // namespace wattle::sim
