// DynamoLLM's managers as separate controllers, simulated: they restart within an epoch, do not respond, and their
// clocks differ, while instances and nodes die during starts and re-shards. Messages pass through the wire format.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "managers/hierarchy.h"
#include "plan/test_sharding.h"
#include "planner/given_plan.h"
#include "planner/manager_links.h"
#include "planner/managers_wire.h"
#include "sim/random_case_test.h"

namespace wattle::planner {
namespace {

constexpr std::int32_t kNodes = 3;
constexpr std::size_t kClasses = 3;
constexpr std::array<std::int32_t, 3> kGpus = {8, 4, 2};  ///< of the shapes; the first fills a node

std::shared_ptr<const plan::LoadTable> table_of_three() {
  static std::shared_ptr<const plan::LoadTable> made;
  if (made != nullptr) return made;
  auto table = std::make_shared<plan::LoadTable>();
  const char* names[] = {"S", "M", "L"};
  for (int c = 0; c < 3; ++c) {
    const auto one = plan::testing::formula_class(names[c], 0.4 + 0.6 * c, 1.0);
    table->classes.push_back({names[c], 200.0 * (c + 1), 100.0, one.limits, one.profiles});
  }
  return made = table;
}

/// A manager's process: its clock, which has an offset, and its state.
struct Controller {
  Span skew;
  std::unique_ptr<managers::Hierarchy> levels;
  std::optional<managers::ClusterMandate> mandate = {};  ///< a pool manager's, from above
};

/// The cluster manager and two processes of pool managers, as the executor sees them.
class Controllers final : public policy::ScalingPolicy {
 public:
  Controllers(std::uint64_t seed, std::map<std::string, int>& seen) : random_(seed, "controllers"), seen_(seen) {
    options_.cluster.gpus_per_node = kGpus[0];
    options_.cluster.nodes = kNodes;
    options_.cluster.epoch = Span::ms(1000 + static_cast<std::int64_t>(random_.below(2000)));
    options_.cluster.rule = random_.below(2) == 0 ? managers::NodeRule::Up : managers::NodeRule::Down;
    options_.cluster.load.slot = Span::ms(500);
    options_.pool.epoch = Span::ms(500 + static_cast<std::int64_t>(random_.below(1500)));
    options_.pool.reshard.sync = Span::ms(100);
    options_.pool.reshard.weight_bytes = 1'000'000'000;
    options_.overheads = {};
    options_.proactive = random_.below(2) == 0;
    if (random_.below(2) == 0) options_.past = {{4.0}, {2.0}, {2.0}};
    begin(cluster_, {});
    begin(pools_[0], {0, 1});
    begin(pools_[1], {2});
  }

  Plan plan(const policy::ScalingView& view) override {
    if (random_.below(8) == 0) restart("cluster manager restarts", cluster_, {});
    if (random_.below(8) == 0) restart("pool managers restart", pools_[0], {0, 1});
    if (random_.below(8) == 0) restart("pool managers restart", pools_[1], {2});
    Observation observed;
    observed.now = view.now;
    observed.rate_per_s.assign(view.rate_per_s.begin(), view.rate_per_s.end());
    observed.rate_per_s.resize(kClasses);  // a gateway also counts those without a result
    observed.members.assign(view.members.begin(), view.members.end());
    observed.weights.assign(view.weights.begin(), view.weights.end());
    observed.clocks.assign(view.clocks.begin(), view.clocks.end());
    const std::string said = to_json(observed);
    std::vector<const Plan*> parts;
    for (std::size_t p = 0; p < pools_.size(); ++p) {
      if (last_[p]) last_[p]->steps.clear();
      if (random_.below(8) == 0) {
        ++seen_["pool managers do not answer"];
      } else if (auto part = ask(pools_[p], said, view.now)) {
        auto read = part_from_json(*part, view.now);
        EXPECT_TRUE(read) << read.error().message();
        if (read) last_[p] = std::move(*read);
      }
      if (last_[p]) parts.push_back(&*last_[p]);
    }
    if (parts.empty()) return as_it_is(view);
    Plan plan = merged(parts, view);
    for (const PlanStep& step : plan.steps) seen_[step.kind == StepKind::Reshard ? "re-shards" : "steps"]++;
    return plan;
  }

 private:
  void begin(Controller& one, std::vector<std::size_t> pools) {
    std::vector<policy::Shape> shapes;
    for (const std::int32_t gpus : kGpus) shapes.push_back({gpus, 0.0, {}});
    one.levels = std::make_unique<managers::Hierarchy>(table_, std::move(shapes), options_);
    if (!pools.empty()) one.levels->pool_level().only(std::move(pools));
    one.mandate.reset();
    one.skew = Span::ms(static_cast<std::int64_t>(random_.below(20'000)) - 10'000);
  }
  void restart(const char* what, Controller& one, std::vector<std::size_t> pools) {
    ++seen_[what];
    begin(one, std::move(pools));
  }
  /// As PoolService does; without sockets.
  std::optional<std::string> ask(Controller& pools, const std::string& said, Instant executors) {
    const Instant now = std::max(Instant(), executors + Span::s(20) + pools.skew);
    auto observed = observation_from_json(said, kGpus.size(), kClasses, now);
    EXPECT_TRUE(observed) << observed.error().message();
    const auto view = observed->view();
    auto& level = pools.levels->pool_level();
    auto seen = managers::observation(level.pools(), level.shapes(), view);
    if (random_.below(8) == 0) {
      ++seen_["cluster manager does not answer"];
    } else {
      const Instant above = executors + Span::s(20) + cluster_.skew;
      auto up = cluster_observation_from_json(to_json(seen), 3, kClasses);
      EXPECT_TRUE(up) << up.error().message();
      auto down = mandate_from_json(to_json(cluster_.levels->cluster_level().mandate(*up, above), above), 3, now);
      EXPECT_TRUE(down) << down.error().message();
      pools.mandate = std::move(*down);
    }
    if (!pools.mandate) return std::nullopt;
    return to_json(level.plan(view, *pools.mandate), now);
  }

  RandomStream random_;
  std::map<std::string, int>& seen_;
  std::shared_ptr<const plan::LoadTable> table_ = table_of_three();
  managers::HierarchyOptions options_;
  Controller cluster_;
  std::array<Controller, 2> pools_;
  std::array<std::optional<Plan>, 2> last_;
};

class Watch final : public journal::Sink {
 public:
  explicit Watch(std::map<std::string, int>& seen) : seen_(seen) {}
  void outcome(const Outcome& o) override {
    EXPECT_TRUE(left.insert(o.request.id.value()).second) << "left twice";
    ++seen_[o.fate == Fate::Failed ? "failed with their instance" : "others"];
  }
  void decision(const journal::DecisionRecord& d) override {
    if (d.kind == journal::DecisionKind::Step) ++seen_[std::string("step: ") + d.reason];
    if (d.kind == journal::DecisionKind::Scaling) ++seen_[std::string("plan: ") + d.reason];
  }
  std::set<std::int64_t> left;

 private:
  std::map<std::string, int>& seen_;
};

sim::InstanceSetup instance_of(const sim::StepModels& truth, std::size_t shape, InstanceId id, PoolId pool) {
  sim::InstanceSetup instance;
  instance.id = id;
  InstanceSpec spec;
  spec.tensor_parallel = kGpus[shape];
  spec.pool = pool;
  instance.spec = std::make_shared<const InstanceSpec>(spec);
  instance.model = truth.models[shape].get();
  instance.initial_clock = MegaHertz(1410);
  return instance;
}

/// Calm and busy seconds of small and large requests.
std::vector<workload::TraceRow> random_rows(RandomStream& random) {
  std::vector<workload::TraceRow> rows;
  double t = 0.0;
  double rate = 6.0;
  for (std::uint64_t n = 30 + random.below(40); n > 0; --n) {
    if (random.below(20) == 0) rate = 2.0 + 18.0 * random.uniform();
    t += random.exponential() / rate;
    rows.push_back({Instant(Span::from_seconds(t).ns()), 1 + static_cast<std::int32_t>(random.below(900)),
                    1 + static_cast<std::int32_t>(random.below(200))});
  }
  return rows;
}

void run(std::uint64_t seed, const sim::StepModels& truth, std::map<std::string, int>& seen) {
  RandomStream random(seed, "fleet");
  const auto rows = random_rows(random);
  const double end = rows.back().arrival.seconds();
  workload::ListSource source(rows);
  sim::SimulationSetup setup;
  setup.seed = seed;
  setup.source = &source;
  setup.check_invariants = true;
  setup.service.classes = Classifier({300, 600}, {});
  auto& scaling = setup.scaling;
  for (std::size_t s = 0; s < kGpus.size(); ++s) {
    scaling.shapes.push_back(
        {kGpus[s], 1.0, [&truth, s](InstanceId id) { return instance_of(truth, s, id, PoolId(2)); }, PoolId(2)});
  }
  // A node's worth for each pool, or one pool for all.
  for (std::int32_t pool = random.below(2) == 0 ? 0 : 2; pool < 3; ++pool) {
    setup.instances.push_back(
        instance_of(truth, 0, InstanceId(static_cast<std::int32_t>(setup.instances.size())), PoolId(pool)));
    scaling.shape_of.push_back(0);
  }
  for (std::int32_t n = 0; n < kNodes; ++n) scaling.nodes.push_back({NodeId(n), "", "", kGpus[0], {}});
  scaling.policy.policy = std::make_shared<Controllers>(seed, seen);
  sim::draw_times(scaling, random, 400, 1100);
  scaling.reshard.weight_bytes = 16'000'000'000;
  scaling.reshard.link_bytes_per_s = 20e9;
  scaling.reshard.sync = Span::ms(static_cast<std::int64_t>(random.below(800)));
  scaling.reshard.gpu_bytes = random.below(2) == 0 ? 40'000'000'000 : 6'000'000'000;
  sim::draw_faults(setup, random, random.below(8), end, kNodes);
  Watch watch(seen);
  setup.sink = &watch;
  const auto result = sim::simulate(std::move(setup));
  EXPECT_EQ(watch.left.size(), rows.size()) << "every request leaves once";
  EXPECT_LE(result.summary.mean_gpus, kNodes * kGpus[0]) << "no GPU's time is booked twice";
}

// Conservation of requests, KV blocks and energy, GPUs held once, exactly the serving instances accepting: the
// simulator checks all of them after every event. Here: one exit for each request, no GPU booked twice.
TEST(ManagersFaults, NobodyIsLostOrServedTwiceOverAThousandSchedules) {
  const sim::StepModels truth(kGpus);
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 1'000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    run(seed, truth, seen);
  }
  for (const char* what :
       {"cluster manager restarts", "pool managers restart", "cluster manager does not answer",
        "pool managers do not answer", "re-shards", "step: begun", "step: done", "step: its new instance died",
        "failed with their instance", "plan: cluster and pool managers"}) {
    EXPECT_GT(seen[what], 0) << what;
  }
  for (const auto& [what, n] : seen) RecordProperty(what, n);
}

// A restarted cluster manager without a load leaves pools as they are; pool managers, too.
TEST(ManagersFaults, ARestartInMidEpochKeepsTheLayout) {
  managers::HierarchyOptions options;
  options.cluster.nodes = kNodes;
  std::vector<policy::Shape> shapes;
  for (const std::int32_t gpus : kGpus) shapes.push_back({gpus, 0.0, {}});
  managers::Hierarchy fresh(table_of_three(), shapes, options);
  std::vector<FleetMember> members;
  const std::array<std::pair<std::size_t, std::int32_t>, 4> there = {{{1, 0}, {2, 0}, {0, 2}, {1, 2}}};
  for (const auto& [shape, pool] : there) {
    FleetMember m;
    m.id = InstanceId(static_cast<std::int32_t>(members.size()));
    m.shape = shape;
    m.phase = Phase::Serving;
    m.pool = PoolId(pool);
    m.gpus = {0};
    members.push_back(m);
  }
  const std::vector<PoolWeight> weights = {{ClassId(0), PoolId(0), 0.6},
                                           {ClassId(0), PoolId(2), 0.4},
                                           {ClassId(1), PoolId(2), 1.0},
                                           {ClassId(2), PoolId(2), 1.0}};
  const std::vector<double> rates = {3.0, 2.0, 1.0};
  policy::ScalingView view;
  view.now = Instant() + Span::s(1000);
  view.rate_per_s = rates;
  view.members = members;
  view.weights = weights;
  const Plan plan = fresh.plan(view);
  std::map<std::pair<std::int32_t, std::size_t>, std::int32_t> wanted;
  for (const PlanTarget& target : plan.instances) wanted[{target.pool->value(), target.shape}] += target.count;
  EXPECT_EQ(wanted, (std::map<std::pair<std::int32_t, std::size_t>, std::int32_t>{
                        {{0, 1}, 1}, {{0, 2}, 1}, {{2, 0}, 1}, {{2, 1}, 1}}));
  EXPECT_TRUE(plan.steps.empty());
  ASSERT_EQ(plan.weights.size(), weights.size());
  EXPECT_NEAR(plan.weights[0].weight, 0.6, 1e-12) << "and where requests go";
  EXPECT_EQ(plan.levels.front().passed.at(0).gpus, 6);
}

}  // namespace
}  // namespace wattle::planner
