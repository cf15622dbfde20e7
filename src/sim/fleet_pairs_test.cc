// Fleets of P/D pairs and colocated instances under random plans, while instances and nodes die.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "sim/random_case_test.h"

namespace wattle::sim::pairs_test {
namespace {

constexpr std::int32_t kNodes = 3;
constexpr std::int32_t kGpusPerNode = 4;
constexpr std::size_t kColocated = 0, kPrefill = 1, kDecode = 2, kPair = 3;
constexpr std::int32_t kGpus[] = {1, 1, 2};

class RandomPlanner final : public policy::ScalingPolicy {
 public:
  explicit RandomPlanner(std::uint64_t seed) : random_(seed, "plans") {}
  Plan plan(const policy::ScalingView&) override {
    if (random_.below(2) == 0 && !last_.instances.empty()) return last_;
    Plan plan;
    plan.reason = "random";
    for (std::int32_t pool = 0; pool < 2; ++pool) {
      const auto pairs = static_cast<std::int32_t>(random_.below(3));
      const auto others = static_cast<std::int32_t>(random_.below(3)) + (pairs == 0 ? 1 : 0);
      plan.instances.push_back({kPair, pairs, {}, PoolId(pool)});
      plan.instances.push_back({kColocated, others, {}, PoolId(pool)});
    }
    if (random_.below(2) == 0) plan.weights = {{ClassId(0), PoolId(0), 0.5}, {ClassId(0), PoolId(1), 0.5}};
    return last_ = plan;
  }

 private:
  RandomStream random_;
  Plan last_;
};

class Watch final : public journal::Sink {
 public:
  void joined(const journal::Instance& facts) override { specs[facts.id] = facts.spec; }
  void decision(const journal::DecisionRecord& d) override {
    if (d.kind != journal::DecisionKind::Phase) return;
    ++phases[d.reason];
    if (d.value == static_cast<int>(Phase::Gone)) gone.insert(d.instance);
  }
  void outcome(const Outcome& o) override {
    EXPECT_TRUE(left.insert(o.request.id.value()).second) << "left twice";
    ++fates[o.fate];
    if (o.fate != Fate::Finished || o.prefill_instance == o.decode_instance) return;
    if (o.decode_instance == kNoInstance) return;  // its only token came from the prefill step
    const InstanceSpec& prefill = specs.at(o.prefill_instance);
    ASSERT_NE(prefill.decode, kNoInstance);
    if (o.decode_instance == prefill.decode) {
      ++in_pairs;
      return;
    }
    ++elsewhere;
    EXPECT_TRUE(gone.contains(prefill.decode)) << "its pair's was there";
    EXPECT_EQ(specs.at(o.decode_instance).pool, prefill.pool);
  }
  std::map<InstanceId, InstanceSpec> specs;
  std::set<InstanceId> gone;
  std::set<std::int64_t> left;
  std::map<Fate, int> fates;
  std::map<std::string, int> phases;
  int in_pairs = 0, elsewhere = 0;
};

struct Ran {
  SimulationResult result;
  Watch watch;
};

void add_shapes(ScalingSetup& scaling, const StepModels& truth) {
  constexpr Role kRoles[] = {Role::Colocated, Role::Prefill, Role::Decode};
  for (std::size_t s = 0; s < std::size(kGpus); ++s) {
    const auto make = [&truth, s, role = kRoles[s]](InstanceId id) {
      InstanceSetup instance;
      instance.id = id;
      InstanceSpec spec;
      spec.role = role;
      spec.tensor_parallel = kGpus[s];
      instance.spec = std::make_shared<const InstanceSpec>(spec);
      instance.model = truth.models[s].get();
      instance.initial_clock = MegaHertz(1410);
      instance.frequency.policy = std::make_unique<ThresholdPolicy>(4, 3'000, false);
      return instance;
    };
    scaling.shapes.push_back({kGpus[s], 1.0, make, {}, {}, kRoles[s]});
  }
  auto& pair = scaling.shapes.emplace_back();
  pair.gpus = kGpus[kPrefill] + kGpus[kDecode];
  pair.pair = PairShape{kPrefill, kDecode};
}

/// One colocated instance and one pair serve from the beginning.
void add_first(SimulationSetup& setup, Watch& watch) {
  for (const std::size_t shape : {kColocated, kDecode, kPrefill}) {
    const InstanceId id(static_cast<std::int32_t>(setup.instances.size()));
    InstanceSetup instance = setup.scaling.shapes[shape].make(id);
    InstanceSpec spec = *instance.spec;
    if (shape == kPrefill) spec.decode = InstanceId(1);
    instance.spec = std::make_shared<const InstanceSpec>(spec);
    watch.joined({id, spec});
    setup.instances.push_back(std::move(instance));
    setup.scaling.shape_of.push_back(shape == kColocated ? kColocated : kPair);
  }
}

Ran run(std::uint64_t seed, const StepModels& truth, bool faults = true, bool fast_forward = true) {
  RandomStream random(seed, "pairs");
  const auto rows = random_rows(random, 60, 10.0, 3000, 200);
  workload::ListSource source(rows);
  Ran ran;
  SimulationSetup setup;
  setup.seed = seed;
  setup.source = &source;
  setup.fast_forward = fast_forward;
  setup.check_invariants = true;
  setup.telemetry = random.below(3) == 0 ? TelemetrySource::StepEnds : TelemetrySource::StepStarts;
  if (random.below(3) == 0) setup.link.bandwidth_bytes_per_s = random.below(2) == 0 ? 0.0 : 1e9;
  if (random.below(3) == 0) setup.link.handoff_steps = 2.0;
  if (random.below(2) == 0) setup.emergency.mode = Mode::Enforce;
  setup.slo.ttft = Span::ms(300);
  setup.slo.itl = Span::ms(20);
  auto& scaling = setup.scaling;
  add_shapes(scaling, truth);
  add_first(setup, ran.watch);
  for (std::int32_t n = 0; n < kNodes; ++n) scaling.nodes.push_back({NodeId(n), "", "", kGpusPerNode, {}});
  scaling.policy.policy = std::make_shared<RandomPlanner>(seed);
  draw_times(scaling, random, 200, 1500);
  if (random.below(3) == 0) scaling.at_once = 1 + static_cast<std::int32_t>(random.below(2));
  const bool beside_draining = scaling.beside_draining = random.below(4) == 0;
  draw_faults(setup, random, faults ? 1 + random.below(8) : 0, rows.back().arrival.seconds(), kNodes);
  setup.sink = &ran.watch;
  ran.result = simulate(std::move(setup));
  EXPECT_EQ(ran.watch.left.size(), rows.size()) << "every request leaves once";
  if (!beside_draining) {
    EXPECT_LE(ran.result.summary.mean_gpus, kNodes * kGpusPerNode + 1e-9) << "no GPU's time is booked twice";
  }
  return ran;
}

// The simulator checks after every event that requests, KV blocks and energy are conserved, GPUs held once, and that
// exactly the serving instances accept requests, a pair's two only together.
TEST(FleetPairs, NobodyIsLostOverAThousandSchedulesAndPairsKeepToThemselves) {
  const StepModels truth(kGpus);
  int in_pairs = 0, elsewhere = 0, lost = 0;
  std::map<std::string, int> phases;
  for (std::uint64_t seed = 0; seed < 1'000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Ran ran = run(seed, truth);
    in_pairs += ran.watch.in_pairs;
    elsewhere += ran.watch.elsewhere;
    for (const auto& [fate, n] : ran.watch.fates) lost += fate == Fate::Finished ? 0 : n;
    for (const auto& [reason, n] : ran.watch.phases) phases[reason] += n;
  }
  EXPECT_GT(in_pairs, 1'000);
  EXPECT_GT(elsewhere, 0) << "some were computed when their decode instance died";
  EXPECT_GT(lost, 0) << "some died with theirs";
  for (const char* reason : {"the other half of the pair died", "half of the pair died", "drained",
                             "called back from draining", "no longer wanted"}) {
    EXPECT_GT(phases[reason], 0) << reason;
  }
}

TEST(FleetPairs, WithoutFaultsEveryRequestFinishesAndDecodesInItsPair) {
  const StepModels truth(kGpus);
  int in_pairs = 0;
  for (std::uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Ran ran = run(seed, truth, false);
    EXPECT_EQ(ran.watch.elsewhere, 0);
    EXPECT_EQ(ran.watch.fates.at(Fate::Finished), static_cast<int>(ran.watch.left.size()));
    in_pairs += ran.watch.in_pairs;
  }
  EXPECT_GT(in_pairs, 0);
}

TEST(FleetPairs, FastForwardEqualsStepByStep) {
  const StepModels truth(kGpus);
  for (std::uint64_t seed = 0; seed < 100 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(run(seed, truth).result.summary.journal_digest,
              run(seed, truth, true, false).result.summary.journal_digest);
  }
}

}  // namespace
}  // namespace wattle::sim::pairs_test
