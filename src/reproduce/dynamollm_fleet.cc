#include "reproduce/dynamollm_fleet.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/random.h"
#include "policy/routing/routing.h"
#include "sim/simulation.h"
#include "workload/source.h"

namespace wattle::reproduce::dynamollm {

namespace {

constexpr Span kMinute = Span::s(60);
constexpr Span kSample = Span::s(2);
constexpr Span kReshardTime = Span::ms(1100);  ///< two transfers of an eighth, and the engine's start
constexpr int kGpusPerNode = 8;
const std::vector<int> kDegrees = {8, 4, 2};

std::size_t minute_of(Instant at) { return static_cast<std::size_t>(at.ns() / kMinute.ns()); }
Instant at_minute(std::size_t minute) { return Instant() + kMinute * static_cast<std::int64_t>(minute); }

/// Instances of one pool by TP degree, as kDegrees, in each minute.
using Layouts = std::vector<std::vector<std::int32_t>>;

/// What the planner decided, minute by minute.
struct Timetable {
  std::vector<Layouts> pools;
  std::vector<std::vector<PoolWeight>> weights;
  std::vector<double> servers;  ///< by minute
  double starts = 0.0;          ///< of nodes
};

std::vector<policy::Shape> shapes(Span start) {
  std::vector<policy::Shape> all;
  for (const int tp : kDegrees) all.push_back({tp, 0.0, start});
  return all;
}

/// Instances of a pool as the plan's targets want them. On GPUs of nodes that run they serve at once (their second is
/// simulated), others when their node has started.
void fill(std::vector<FleetMember>& fleet, const Plan& plan, PoolId pool, int gpus_there, Instant now,
          std::int32_t& next_id, std::int32_t& next_node, double& node_starts) {
  int used = 0;
  for (const FleetMember& m : fleet) used += m.pool == pool ? kDegrees[m.shape] : 0;
  for (std::size_t shape = 0; shape < kDegrees.size(); ++shape) {
    std::int32_t wanted = 0;
    for (const PlanTarget& target : plan.instances) {
      if (target.shape == shape && target.pool == pool) wanted += target.count;
    }
    const auto is = [&](const FleetMember& m) { return m.shape == shape && m.pool == pool; };
    auto have = static_cast<std::int32_t>(std::ranges::count_if(fleet, is));
    for (; have > wanted; --have) {  // the newest
      const auto last = std::ranges::find_if(fleet.rbegin(), fleet.rend(), is);
      fleet.erase(std::next(last).base());
      used -= kDegrees[shape];
    }
    for (; have < wanted; ++have) {
      FleetMember member;
      member.id = InstanceId(next_id++);
      member.shape = shape;
      member.since = now;
      member.pool = pool;
      member.node = NodeId(next_node++);
      member.gpus = {0};
      used += kDegrees[shape];
      member.phase = used <= gpus_there ? Phase::Serving : Phase::Spawning;
      if (member.phase == Phase::Spawning) node_starts += kDegrees[shape] / static_cast<double>(kGpusPerNode);
      fleet.push_back(member);
    }
  }
}

/// Runs the planner against the arrivals, on a fleet that does what it says: nodes serve after their start, re-shards
/// at once (their second is simulated).
Timetable plan_fleet(const Service& service, const System& system, const std::vector<std::vector<double>>& rates) {
  auto options = system.planner;
  for (const double peak : service.peak_per_s) options.past.push_back({peak});
  managers::Hierarchy planner(service.table, shapes(options.overheads.start()), options);
  const std::size_t pools = planner.pools().pools();
  Timetable made;
  made.pools.resize(pools);
  std::vector<FleetMember> fleet;
  std::int32_t next_id = 0, next_node = 0;
  std::vector<int> nodes_there(pools, 0);  ///< GPUs of a pool's nodes that run
  for (std::size_t minute = 0; minute < rates.size(); ++minute) {
    const Instant now = at_minute(minute);
    policy::ScalingView view;
    view.now = now;
    const std::vector<double> none = {0.0};
    view.rate_per_s = minute == 0 ? none : rates[minute - 1];
    for (FleetMember& member : fleet) {
      if (member.phase == Phase::Spawning && now >= member.since + options.overheads.start())
        member.phase = Phase::Serving;
    }
    view.members = fleet;
    const Plan plan = planner.plan(view);
    // Re-shards first, in place; then what the targets add or leave out.
    for (const PlanStep& step : plan.steps) {
      if (step.kind != StepKind::Reshard) continue;
      NodeId node;
      for (const InstanceId id : step.from) {
        const auto found = std::ranges::find(fleet, id, &FleetMember::id);
        node = found->node;
        fleet.erase(found);
      }
      for (const std::size_t shape : step.to) {
        FleetMember member;
        member.id = InstanceId(next_id++);
        member.shape = shape;
        member.phase = Phase::Serving;
        member.pool = *step.pool;
        member.node = node;
        member.gpus = {0};
        fleet.push_back(member);
      }
    }
    double allotted = 0.0;
    for (std::size_t p = 0; p < pools; ++p) {
      const PoolId pool(static_cast<std::int32_t>(p));
      int given = 0;
      for (const PlanLevel& level : plan.levels) {
        if (level.pool == pool && level.given) given = level.given->gpus;
      }
      allotted += given;
      fill(fleet, plan, pool, minute == 0 ? given : nodes_there[p], now, next_id, next_node, made.starts);
      nodes_there[p] = given;
    }
    for (std::size_t p = 0; p < pools; ++p) {
      std::vector<std::int32_t> counts(kDegrees.size(), 0);
      for (const FleetMember& member : fleet) {
        if (member.pool.value() != static_cast<std::int32_t>(p) || member.phase != Phase::Serving) continue;
        ++counts[member.shape];
      }
      made.pools[p].push_back(std::move(counts));
    }
    made.servers.push_back(std::ceil(allotted / kGpusPerNode));
    made.weights.push_back(plan.weights);
  }
  return made;
}

/// One pool without a planner.
Timetable fixed_fleet(const System& system, std::size_t minutes, std::int32_t classes) {
  Timetable made;
  std::vector<std::int32_t> counts(kDegrees.size(), 0);
  for (std::size_t shape = 0; shape < kDegrees.size(); ++shape) {
    if (kDegrees[shape] == system.tp) counts[shape] = system.instances;
  }
  made.pools = {Layouts(minutes, counts)};
  std::vector<PoolWeight> all;
  for (std::int32_t c = 0; c < classes; ++c) all.push_back({ClassId(c), PoolId(0), 1.0});
  made.weights.assign(minutes, all);
  made.servers.assign(minutes, std::ceil(system.instances * system.tp / static_cast<double>(kGpusPerNode)));
  return made;
}

/// Replays one pool's layouts from a minute on.
class Replay final : public policy::ScalingPolicy {
 public:
  Replay(Layouts layouts) : layouts_(std::move(layouts)) {}
  Plan plan(const policy::ScalingView& view) override {
    return Plan::of(layouts_[std::min(minute_of(view.now), layouts_.size() - 1)], "as planned");
  }

 private:
  Layouts layouts_;
};

/// The least assigned requests for what an instance carries (InstanceSpec::weight): instances of a pool differ in size.
class ByCapacity final : public policy::RoutingPolicy {
 public:
  RouteDecision route(const Request&, std::span<const InstanceView* const> candidates, Instant,
                      RandomStream&) override {
    const auto share = [](const InstanceView* view) { return (view->assigned_requests + 1) / view->spec->weight; };
    return {(*std::ranges::min_element(candidates, {}, share))->id, "the least for its size"};
  }
  [[nodiscard]] bool reads_steps() const override { return false; }
};

workload::TraceRow closing(std::size_t minutes) { return {at_minute(minutes) - Span::ms(1), 1, 1}; }

/// Adds a pool's stretch to the run.
class Account final : public journal::Sink {
 public:
  Account(FleetRun& run, const Service& service, std::size_t pool, std::size_t first_minute, std::size_t minutes)
      : run_(run),
        service_(service),
        limits_(limits_of(service.classes)),
        pool_(pool),
        begin_(kMinute * static_cast<std::int64_t>(first_minute)),
        until_(at_minute(minutes)) {}

  void know(const std::vector<journal::Instance>& facts) {
    for (const auto& f : facts) joined(f);
  }
  void joined(const journal::Instance& facts) override { tp_[facts.id] = facts.spec.tensor_parallel; }
  void outcome(const Outcome& o) override {
    if (o.request.arrival == until_ - Span::ms(1) && o.request.prompt_tokens == 1) return;  // the closing one
    ++run_.arrived;
    if (o.fate != Fate::Finished) return;
    ++run_.finished;
    run_.ttft_us.add(o.ttft().ns() / 1'000);
    if (o.output_tokens > 1) run_.tbt_us.add(o.tbt().ns() / 1'000);
    const auto c = static_cast<std::size_t>(service_.classes.of(o.request.prompt_tokens, o.output_tokens).value());
    const bool met = o.ttft() <= limits_[c].ttft && o.tbt() <= limits_[c].tbt;
    run_.met += met ? 1 : 0;
    run_.class_arrived[c] += 1.0;
    run_.class_met[c] += met ? 1.0 : 0.0;
  }
  void sample(const journal::Sample& s) override {
    if (s.at > until_) return;
    const Instant at = s.at + begin_;
    const auto minute = minute_of(at);
    const auto tick = static_cast<std::size_t>(at.ns() / kSample.ns());
    const auto booked = (s.energy - booked_[s.instance]).joules();
    booked_[s.instance] = s.energy;
    if (s.power.value() == 0) return;  // gone
    const int tp = tp_[s.instance];
    if (minute < run_.minutes.size()) {
      Minute& m = run_.minutes[minute];
      const double share = kSample.seconds() / kMinute.seconds();
      m.energy += booked;
      m.gpus[tp] += share * tp;
      m.pool_gpus[pool_][tp] += share * tp;
      m.clock_mhz += share * tp * s.clock.value();
      m.pool_clock_mhz[pool_] += share * tp * s.clock.value();
    }
    run_.energy += booked;
    run_.by_pool[pool_] += booked;
    run_.used_gpu_hours += tp * kSample.seconds() / 3600.0;
    if (tick < run_.power_w.size()) run_.power_w[tick] += to_watts(s.power).value();
  }

 private:
  FleetRun& run_;
  const Service& service_;
  std::vector<plan::ShardLimits> limits_;
  std::size_t pool_;
  Span begin_;
  Instant until_;
  std::map<InstanceId, int> tp_;
  std::map<InstanceId, Picojoules> booked_;
};

sim::InstanceSetup make_instance(const Service& service, const System& system, int tp, std::size_t pool,
                                 InstanceId id) {
  const managers::PoolMap map(*service.table, system.planner.pools);
  const std::size_t heaviest = system.planned ? map.heaviest(pool) : service.table->classes.size() - 1;
  auto spec = std::make_shared<InstanceSpec>();
  spec->gpu = service.scenario.gpus.front();
  spec->llm = service.scenario.llm;
  spec->tensor_parallel = tp;
  spec->clocks = supported_clocks(spec->gpu);
  spec->pool = PoolId(static_cast<std::int32_t>(pool));
  const auto& one = service.table->classes[heaviest];
  spec->weight = std::max(1e-3, plan::most_load(one, tp, plan::top_clock(one, tp)));
  sim::InstanceSetup made;
  made.id = id;
  made.model = service.models.at(tp).get();
  made.initial_clock = system.clock;
  if (system.manage_clocks) {
    made.frequency.policy = std::make_shared<managers::InstanceManager>(system.clocks, service.table, *spec);
  }
  made.spec = std::move(spec);
  return made;
}

/// Simulates one pool from one minute to another, in all of which it has instances.
void run_stretch(const Service& service, const System& system, std::size_t pool, const Layouts& layouts,
                 std::size_t first, std::vector<workload::TraceRow> rows, FleetRun& run) {
  const std::size_t minutes = layouts.size();
  // A run ends with its last request: a smallest one closes the stretch, so that idling until then is billed.
  rows.push_back(closing(minutes));
  sim::SimulationSetup setup;
  setup.engine = service.scenario.scenario.engine;
  setup.clock_delays = service.scenario.scenario.clock_delays;
  setup.max_tokens = service.scenario.scenario.workload.max_output_tokens;
  setup.policies.route_prefill = {std::make_shared<ByCapacity>(), Mode::Enforce};
  std::vector<journal::Instance> facts;
  for (std::size_t shape = 0; shape < kDegrees.size(); ++shape) {
    const int tp = kDegrees[shape];
    const auto make = [&service, &system, tp, pool](InstanceId id) {
      return make_instance(service, system, tp, pool, id);
    };
    setup.scaling.shapes.push_back({tp, 0.0, make});
    for (std::int32_t i = 0; i < layouts.front()[shape]; ++i) {
      const InstanceId id(static_cast<std::int32_t>(setup.instances.size()));
      setup.instances.push_back(make(id));
      setup.scaling.shape_of.push_back(shape);
      facts.push_back({id, *setup.instances.back().spec});
    }
  }
  setup.scaling.policy = {std::make_shared<Replay>(layouts), Mode::Enforce};
  setup.scaling.period = kMinute;
  setup.scaling.load_time = kReshardTime;
  workload::ListSource source(std::move(rows));
  setup.source = &source;
  Account account(run, service, pool, first, minutes);
  account.know(facts);
  setup.sink = &account;
  setup.sample_period = kSample;
  (void)sim::simulate(std::move(setup));
}

}  // namespace

double FleetRun::power_w_at(double quantile) const {
  std::vector<double> sorted = power_w;
  if (sorted.empty()) return 0.0;
  std::ranges::sort(sorted);
  return sorted[static_cast<std::size_t>(quantile * static_cast<double>(sorted.size() - 1))];
}

double FleetRun::mean_servers() const {
  double sum = 0.0;
  for (const Minute& minute : minutes) sum += minute.servers;
  return minutes.empty() ? 0.0 : sum / static_cast<double>(minutes.size());
}

Result<FleetRun> run_system(const Service& service, const System& system) {
  const auto rates = rates_by_minute(service, service.believed);
  const Timetable timetable =
      system.planned ? plan_fleet(service, system, rates) : fixed_fleet(system, rates.size(), service.classes.size());
  const std::size_t pools = timetable.pools.size();
  FleetRun run;
  run.by_pool.resize(pools);
  run.class_arrived.assign(static_cast<std::size_t>(service.classes.size()), 0.0);
  run.class_met = run.class_arrived;
  run.minutes.resize(rates.size());
  for (Minute& minute : run.minutes) {
    minute.pool_gpus.resize(pools);
    minute.pool_clock_mhz.resize(pools, 0.0);
  }
  run.power_w.assign(static_cast<std::size_t>(service.length.ns() / kSample.ns()), 0.0);
  // To each request its pool.
  RandomStream random(service.scenario.scenario.seed, "pools");
  std::vector<std::vector<workload::TraceRow>> rows(pools);
  for (std::size_t i = 0; i < service.rows.size(); ++i) {
    const auto& weights = timetable.weights[std::min(minute_of(service.rows[i].arrival), rates.size() - 1)];
    double at = random.uniform();
    std::optional<std::size_t> pool;
    for (const PoolWeight& weight : weights) {
      if (weight.request_class != service.believed[i]) continue;
      pool = static_cast<std::size_t>(weight.pool.value());
      if ((at -= weight.weight) < 0.0) break;
    }
    // A pool that the plan is just giving up: the next larger one that has instances, else any.
    const std::size_t minute = std::min(minute_of(service.rows[i].arrival), rates.size() - 1);
    const auto stands = [&](std::size_t p) {
      return std::ranges::any_of(timetable.pools[p][minute], [](std::int32_t n) { return n > 0; });
    };
    while (pool && *pool < pools && !stands(*pool)) ++*pool;
    for (std::size_t p = 0; (!pool || *pool >= pools) && p < pools; ++p) {
      if (stands(p)) pool = p;
    }
    if (pool && *pool < pools) {
      rows[*pool].push_back(service.rows[i]);
    } else {
      ++run.arrived;  // nothing serves it
    }
  }
  for (std::size_t p = 0; p < pools; ++p) {
    const Layouts& layouts = timetable.pools[p];
    const auto any = [&](std::size_t minute) {
      return std::ranges::any_of(layouts[minute], [](std::int32_t n) { return n > 0; });
    };
    for (std::size_t first = 0; first < layouts.size();) {
      if (!any(first)) {
        ++first;
        continue;
      }
      std::size_t last = first;
      while (last < layouts.size() && any(last)) ++last;
      std::vector<workload::TraceRow> part;
      for (workload::TraceRow row : rows[p]) {
        const auto minute = minute_of(row.arrival);
        if (minute < first || minute >= last) continue;
        row.arrival = row.arrival - kMinute * static_cast<std::int64_t>(first);
        part.push_back(row);
      }
      const Layouts own(layouts.begin() + static_cast<std::ptrdiff_t>(first),
                        layouts.begin() + static_cast<std::ptrdiff_t>(last));
      run_stretch(service, system, p, own, first, std::move(part), run);
      first = last;
    }
  }
  for (std::size_t minute = 0; minute < run.minutes.size(); ++minute) {
    Minute& m = run.minutes[minute];
    double gpus = 0.0;
    for (const auto& [tp, count] : m.gpus) gpus += count;
    m.servers = std::max(timetable.servers[minute], std::ceil(gpus / kGpusPerNode - 1e-9));
    if (gpus > 0.0) m.clock_mhz /= gpus;
    for (std::size_t p = 0; p < pools; ++p) {
      double own = 0.0;
      for (const auto& [tp, count] : m.pool_gpus[p]) own += count;
      if (own > 0.0) m.pool_clock_mhz[p] /= own;
    }
    const Joules unused(std::max(0.0, m.servers * kGpusPerNode - gpus) * kBareGpuWatts * kMinute.seconds());
    m.energy += unused;
    run.unused_gpus += unused;
    run.gpu_hours += m.servers * kGpusPerNode / 60.0;
  }
  run.starts = Joules(timetable.starts * kGpusPerNode * kBareGpuWatts * system.planner.overheads.start().seconds());
  run.energy += run.unused_gpus + run.starts;
  return run;
}

}  // namespace wattle::reproduce::dynamollm
