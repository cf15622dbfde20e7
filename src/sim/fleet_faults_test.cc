// A fleet that is planned, re-sharded and moved while its instances and nodes die.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sim/random_case_test.h"

namespace wattle::sim {
namespace {

constexpr std::int32_t kNodes = 3;
constexpr std::int32_t kGpusPerNode = 4;
/// GPUs of the shapes.
constexpr std::int32_t kGpus[] = {1, 2, 4};

/// Two tiers, each with its own class, in every third schedule.
bool has_tiers(std::uint64_t seed) { return seed % 3 == 1; }
constexpr Span kLoose = Span::ms(200);
constexpr Span kStrict = Span::ms(20);

Service two_tiers(const Slo& fleet) {
  Service service;
  Tier loose{"loose", {}, 1.0};
  loose.slo.itl = kLoose;
  service.objectives = Objectives(fleet, {}, {}, {{"strict", {}, 1.0}, loose});
  service.classes = Classifier().by_tier({"loose", "strict"}, {1, 0});
  service.tenants = {{"a", TierId(0), SiteId(), 0, 1.0}, {"b", TierId(1), SiteId(), 0, 2.0}};
  return service;
}

/// Other clocks for other objectives; counts in how many ways it was held to them.
class ByTier final : public policy::FrequencyPolicy {
 public:
  explicit ByTier(std::map<Span, int>& held_to) : held_to_(held_to) {}
  ClockDecision choose(const InstanceView& view, Instant now) override {
    return (loose_ ? few_ : many_).choose(view, now);
  }
  void held_to(const InstanceView&, const Slo& slo) override {
    loose_ = slo.itl == kLoose;
    ++held_to_[slo.itl.value_or(Span::max())];
  }

 private:
  std::map<Span, int>& held_to_;
  bool loose_ = false;
  ThresholdPolicy few_{12, 9'000, false};
  ThresholdPolicy many_{4, 3'000, false};
};

/// Plans at random, steps and all: sound and unsound ones.
class RandomPlanner final : public policy::ScalingPolicy {
 public:
  explicit RandomPlanner(std::uint64_t seed) : tiers_(has_tiers(seed)), random_(seed, "plans"), split_(seed, "split") {}
  Plan plan(const policy::ScalingView& view) override {
    if (random_.below(2) == 0 && !last_.instances.empty()) {
      last_.steps.clear();
      return last_;
    }
    Plan plan;
    plan.reason = "random";
    for (std::int32_t pool = 0; pool < 2; ++pool) {
      plan.instances.push_back({random_.below(2), 1 + static_cast<std::int32_t>(random_.below(2)), {}, PoolId(pool)});
      if (random_.below(3) == 0) plan.instances.push_back({2, 1, {}, PoolId(pool)});
    }
    if (random_.below(2) == 0) plan.weights = {{ClassId(0), PoolId(0), 0.5}, {ClassId(0), PoolId(1), 0.5}};
    if (tiers_) plan.weights = weights_of_tiers();
    if (random_.below(2) == 0) plan.clocks = {{PoolId(0), MegaHertz(900), MegaHertz(1200)}};
    for (const FleetMember& m : view.members) {
      if (m.phase == Phase::Serving && !m.changing && random_.below(2) == 0) plan.steps.push_back(step_from(m));
    }
    last_ = plan;
    return plan;
  }

 private:
  PlanStep step_from(const FleetMember& m) {
    PlanStep step;
    step.from = {m.id};
    step.kind = random_.below(4) == 0 ? StepKind::Drain : StepKind::Move;
    if (m.shape > 0 && random_.below(4) != 0) {
      step.kind = StepKind::Reshard;
      step.to = {m.shape - 1, m.shape - 1};
      step.serves_on = random_.below(2) == 0;
    }
    if (step.kind == StepKind::Move) step.node = NodeId(static_cast<std::int32_t>(random_.below(kNodes)));
    return step;
  }
  /// One pool per tier, one pool for both tiers, a shared pool beside own ones, a shed share, or all pools for all
  /// requests.
  std::vector<PoolWeight> weights_of_tiers() {
    const ClassId loose(0), strict(1);
    switch (split_.below(5)) {
      case 0:
        return {{loose, PoolId(0), 1.0}, {strict, PoolId(1), 1.0}};
      case 1: {
        const PoolId both(static_cast<std::int32_t>(split_.below(2)));
        return {{loose, both, 1.0}, {strict, both, 1.0}};
      }
      case 2:
        return {{loose, PoolId(0), 0.5}, {loose, PoolId(1), 0.5}, {strict, PoolId(1), 1.0}};
      case 3:
        return {{loose, PoolId(1), 0.7}, {strict, PoolId(0), 1.0}};
      default:
        return {};
    }
  }

  bool tiers_;
  RandomStream random_;
  RandomStream split_;
  Plan last_;
};

class Watch final : public journal::Sink {
 public:
  void outcome(const Outcome& o) override {
    EXPECT_TRUE(left.insert(o.request.id.value()).second) << "left twice";
    ++by_tier[o.request.tier][o.fate];
    failed += o.fate == Fate::Failed ? 1 : 0;
  }
  void decision(const journal::DecisionRecord& d) override {
    if (d.kind == journal::DecisionKind::Step) ++steps[d.reason];
    if (d.kind == journal::DecisionKind::Pool) ++pools[d.reason];
  }
  std::set<std::int64_t> left;
  std::int64_t failed = 0;
  std::map<std::string, int> steps;
  std::map<std::string, int> pools;  ///< why requests went to theirs
  std::map<TierId, std::map<Fate, std::int64_t>> by_tier;
};

struct Ran {
  SimulationResult result;
  Watch watch;
  std::map<Span, int> held_to;
};

/// Instances of each size in kGpus, with clocks by thresholds, or by tier where `held_to` counts them, or none decided.
void add_shapes(ScalingSetup& scaling, const StepModels& truth, bool clocks, std::map<Span, int>* held_to = nullptr) {
  for (std::size_t s = 0; s < std::size(kGpus); ++s) {
    const auto make = [&truth, s, clocks, held_to](InstanceId id) {
      InstanceSetup instance;
      instance.id = id;
      InstanceSpec spec;
      spec.tensor_parallel = kGpus[s];
      instance.spec = std::make_shared<const InstanceSpec>(spec);
      instance.model = truth.models[s].get();
      instance.initial_clock = MegaHertz(1410);
      if (clocks) instance.frequency.policy = std::make_unique<ThresholdPolicy>(4, 3'000, false);
      if (held_to != nullptr) instance.frequency.policy = std::make_unique<ByTier>(*held_to);
      return instance;
    };
    scaling.shapes.push_back({kGpus[s], 1.0, make});
  }
}

/// Each tier's requests leave once, by the fates that the summary counts.
void check_tiers(Ran& ran, std::size_t requests) {
  const auto& rows = ran.result.summary.service_by_tier;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(static_cast<std::size_t>(rows[0].left + rows[1].left), requests);
  for (std::size_t t = 0; t < rows.size(); ++t) {
    auto& fates = ran.watch.by_tier[TierId(static_cast<std::int32_t>(t))];
    EXPECT_EQ(rows[t].left, rows[t].finished + rows[t].rejected + rows[t].failed + rows[t].cancelled) << rows[t].name;
    EXPECT_EQ(rows[t].finished, fates[Fate::Finished]) << rows[t].name;
    EXPECT_EQ(rows[t].rejected, fates[Fate::Rejected]) << rows[t].name;
    EXPECT_EQ(rows[t].failed, fates[Fate::Failed]) << rows[t].name;
  }
}

Ran run(std::uint64_t seed, const StepModels& truth, bool fast_forward = true) {
  RandomStream random(seed, "fleet");
  const auto rows = random_rows(random, 40, 8.0, 800, 300);
  workload::ListSource source(rows);
  SimulationSetup setup;
  setup.seed = seed;
  setup.source = &source;
  setup.fast_forward = fast_forward;
  setup.check_invariants = true;
  Ran ran;
  setup.slo.itl = kStrict;
  if (has_tiers(seed)) setup.service = two_tiers(setup.slo);
  auto& scaling = setup.scaling;
  add_shapes(scaling, truth, true, has_tiers(seed) ? &ran.held_to : nullptr);
  for (const std::size_t shape : {2U, 1U, 1U}) {
    setup.instances.push_back(
        scaling.shapes[shape].make(InstanceId(static_cast<std::int32_t>(setup.instances.size()))));
    scaling.shape_of.push_back(shape);
  }
  for (std::int32_t n = 0; n < kNodes; ++n) scaling.nodes.push_back({NodeId(n), "", "", kGpusPerNode, {}});
  if (seed % 2 == 0) scaling.idle_gpu.assign(kNodes, Milliwatts(60'000));
  scaling.policy.policy = std::make_shared<RandomPlanner>(seed);
  draw_times(scaling, random, 200, 1500);
  if (random.below(2) == 0) scaling.at_once = 1 + static_cast<std::int32_t>(random.below(2));
  scaling.reshard.weight_bytes = 16'000'000'000;
  scaling.reshard.link_bytes_per_s = 20e9;
  scaling.reshard.sync = Span::ms(static_cast<std::int64_t>(random.below(800)));
  // Memory for both, or for one alone.
  scaling.reshard.gpu_bytes = random.below(2) == 0 ? 40'000'000'000 : 6'000'000'000;
  draw_faults(setup, random, random.below(8), rows.back().arrival.seconds(), kNodes);
  setup.sink = &ran.watch;
  ran.result = simulate(std::move(setup));
  EXPECT_EQ(ran.watch.left.size(), rows.size()) << "every request leaves once";
  const auto& summary = ran.result.summary;
  EXPECT_LE(summary.mean_gpus, kNodes * kGpusPerNode) << "no GPU's time is booked twice";
  if (has_tiers(seed)) check_tiers(ran, rows.size());
  return ran;
}

// Conservation of requests, KV blocks and energy, GPUs held once, exactly the serving instances accepting: the
// simulator checks all of them after every event. What is left to check here: one exit for each request, no GPU booked
// twice.
TEST(FleetFaults, NobodyIsLostOrServedTwiceOverAThousandSchedules) {
  const StepModels truth(kGpus);
  std::map<std::string, int> steps;
  std::int64_t failed = 0;
  std::map<std::string, int> pools;
  std::map<Span, int> held_to;
  std::map<TierId, std::map<Fate, std::int64_t>> by_tier;
  for (std::uint64_t seed = 0; seed < 1'000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Ran ran = run(seed, truth);
    failed += ran.watch.failed;
    if (has_tiers(seed)) {
      for (const auto& [reason, n] : ran.watch.pools) pools[reason] += n;
      for (const auto& [itl, n] : ran.held_to) held_to[itl] += n;
      for (const auto& [tier, fates] : ran.watch.by_tier) {
        for (const auto& [fate, n] : fates) by_tier[tier][fate] += n;
      }
    }
    for (const auto& [reason, n] : ran.watch.steps) steps[reason] += n;
  }
  // All ways a step can go are among them.
  for (const char* reason : {"begun", "done", "its new instance died", "superseded by a newer plan"}) {
    EXPECT_GT(steps[reason], 0) << reason;
  }
  EXPECT_GT(failed, 0) << "some died with their instances";
  // So are all ways of tiers.
  for (const char* reason : {"its class's share", "overflow", "no pool of its own or larger"}) {
    EXPECT_GT(pools[reason], 0) << reason;
  }
  for (const Span itl : {kLoose, kStrict}) EXPECT_GT(held_to[itl], 100) << itl.millis();
  for (const TierId tier : {TierId(0), TierId(1)}) {
    EXPECT_GT(by_tier[tier][Fate::Finished], 1'000) << tier.value();
    EXPECT_GT(by_tier[tier][Fate::Failed], 0) << tier.value();
  }
  EXPECT_GT(by_tier[TierId(1)][Fate::Rejected], 0) << "the share that is shed";
}

/// Splits its instance of four GPUs into two of two at the first epoch.
class Splitter final : public policy::ScalingPolicy {
 public:
  Plan plan(const policy::ScalingView& view) override {
    Plan plan = Plan::of({0, 2, 0}, "split");
    if (view.members.size() > 1) return plan;
    PlanStep& step = plan.steps.emplace_back();
    step.kind = StepKind::Reshard;
    step.from = {view.members.front().id};
    step.to = {1, 1};
    step.serves_on = true;
    return plan;
  }
};

TEST(FleetFaults, AReshardedNodeDrawsAndCostsWhatItsGpusDoOnce) {
  const StepModels truth(kGpus);
  std::vector<workload::TraceRow> rows;
  for (int i = 0; i < 40; ++i) rows.push_back({Instant(Span::ms(100 * i).ns()), 200, 400});
  workload::ListSource source(rows);
  SimulationSetup setup;
  setup.source = &source;
  setup.check_invariants = true;
  setup.sample_period = Span::ms(10);
  auto& scaling = setup.scaling;
  add_shapes(scaling, truth, false);
  setup.instances.push_back(scaling.shapes[2].make(InstanceId(0)));
  scaling.shape_of = {2};
  scaling.nodes = {{NodeId(0), "", "", 4, {}}};
  scaling.policy.policy = std::make_shared<Splitter>();
  scaling.period = Span::s(1);
  scaling.reshard.weight_bytes = 16'000'000'000;
  scaling.reshard.sync = Span::s(1);
  class Seen final : public journal::Sink {
   public:
    void decision(const journal::DecisionRecord& d) override {
      if (d.kind != journal::DecisionKind::Phase) return;
      if (d.value == static_cast<int>(Phase::Serving)) serving.push_back(d.at);
      if (d.value == static_cast<int>(Phase::Gone)) gone = d.at;
    }
    void outcome(const Outcome& o) override { finished += o.fate == Fate::Finished ? 1 : 0; }
    void sample(const journal::Sample& s) override { power[s.at] += s.power.value(); }
    std::vector<Instant> serving;
    std::map<Instant, std::int64_t> power;
    Instant gone;
    int finished = 0;
  } seen;
  setup.sink = &seen;
  const auto result = simulate(std::move(setup));
  EXPECT_EQ(seen.finished, 40) << "nobody is dropped";
  EXPECT_DOUBLE_EQ(result.summary.mean_gpus, 4.0) << "four GPUs all the time";
  ASSERT_EQ(seen.serving.size(), 2U);
  EXPECT_GT(seen.serving.front(), Instant() + Span::s(2)) << "the plan at 1 s, transfer, and the engine's start";
  EXPECT_LT(seen.serving.front(), Instant() + Span::from_seconds(2.5));
  const std::int64_t idle = truth.models[2]->idle_power(MegaHertz(1410)).value();
  const std::int64_t most = 4 * to_milliwatts(GpuSpec{}.tdp).value();
  for (const auto& [at, power] : seen.power) {
    EXPECT_GE(power, idle) << "at " << at.seconds();
    // While the old instance finishes its requests on the same GPUs, each instance draws power as if it were alone, so
    // the sum is too high for a short time.
    const bool beside = at >= seen.serving.front() && at <= seen.gone;
    EXPECT_TRUE(beside || power <= most) << "at " << at.seconds();
  }
}

TEST(FleetFaults, GpusOfANodeInUseThatNobodyHasDrawAndCost) {
  const StepModels truth(kGpus);
  workload::ListSource source({{Instant(), 200, 400}});
  SimulationSetup setup;
  setup.source = &source;
  setup.check_invariants = true;
  auto& scaling = setup.scaling;
  add_shapes(scaling, truth, false);
  setup.instances.push_back(scaling.shapes[2].make(InstanceId(0)));
  scaling.shape_of = {2};
  scaling.nodes = {{NodeId(0), "", "", 6, {}}, {NodeId(1), "", "", 8, {}}};
  scaling.idle_gpu = {Milliwatts(50'000), Milliwatts(50'000)};
  scaling.policy.policy = std::make_shared<Splitter>();
  scaling.period = Span::s(1);
  const auto summary = simulate(std::move(setup)).summary;
  EXPECT_DOUBLE_EQ(summary.mean_gpus, 6.0) << "the node in use, whole; the other not at all";
  double sum = 0.0;
  for (const auto& row : summary.by_instance) sum += row.energy.value();
  EXPECT_NEAR(sum, summary.energy.total.value(), 1e-3);
  EXPECT_EQ(summary.by_instance.back().name, "(spare GPUs)");
  EXPECT_NEAR(summary.by_instance.back().energy.value(), 2 * 50.0 * summary.sim.virtual_s, 1e-3);
}

TEST(FleetFaults, FastForwardEqualsStepByStepWhileAFleetIsResharded) {
  const StepModels truth(kGpus);
  for (std::uint64_t seed = 0; seed < 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(run(seed, truth).result.summary.journal_digest, run(seed, truth, false).result.summary.journal_digest);
  }
}

}  // namespace
}  // namespace wattle::sim
