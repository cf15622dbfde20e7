#include <benchmark/benchmark.h>

#include <memory>
#include <utility>
#include <vector>

#include "control/fleet_loop.h"
#include "control/throttle.h"
#include "policy/admission/bounded.h"
#include "policy/frequency/eco_freq.h"
#include "policy/queueing/fcfs.h"
#include "policy/queueing/laxity.h"
#include "policy/routing/eco_route.h"
#include "policy/routing/least_energy.h"
#include "policy/routing/least_loaded.h"
#include "policy/throttllem/throttllem.h"
#include "predict/linear_latency.h"

namespace wattle::control {
namespace {

/// Decode planes with the reference's 28 tiles; at the low clock, steps of the larger batches exceed the objective.
predict::LinearLatency belief(const std::vector<MegaHertz>& clocks) {
  predict::LinearCoefficients c;
  for (std::int32_t end = 8; end <= 128; end += 8) c.tile_ends.push_back(end);
  for (std::int32_t end = 256; end <= 1'664; end += 128) c.tile_ends.push_back(end);
  for (const MegaHertz clock : clocks) {
    predict::ClockCoefficients at{clock, {6e4, 5e6}, {}};
    for (std::size_t tile = 0; tile <= c.tile_ends.size(); ++tile) {
      at.decode.push_back({2e4, 60.0, (1e7 + 1e6 * static_cast<double>(tile)) * 1410.0 / clock.value()});
    }
    c.clocks.push_back(std::move(at));
  }
  return std::move(*predict::LinearLatency::make(std::move(c)));
}

std::vector<MegaHertz> levels(std::int64_t count) {
  if (count == 2) return {MegaHertz{1005}, MegaHertz{1410}};
  return {MegaHertz{1005}, MegaHertz{1095}, MegaHertz{1200}, MegaHertz{1305}, MegaHertz{1410}};
}

policy::EcoFreqOptions options(const std::vector<MegaHertz>& clocks) {
  policy::EcoFreqOptions o;
  o.clocks.assign(clocks.begin(), clocks.end());
  return o;
}

InstanceSpec spec_of(const LatencyModel& model) {
  InstanceSpec spec;
  spec.slo.ttft = Span::ms(600);
  spec.slo.itl = Span::ms(60);
  spec.beliefs.latency = &model;
  return spec;
}

InstanceView view_of(const InstanceSpec& spec) {
  InstanceView view;
  view.spec = &spec;
  return view;
}

StepReport report(std::int32_t requests, std::int64_t kv) {
  StepReport r;
  r.shape.decode_requests = requests;
  r.shape.decode_kv_tokens = kv;
  return r;
}

class NoClocks final : public ClockPort {
 public:
  void command(InstanceId, MegaHertz, Instant) override {}
};

/// One decision with the linear predictor. KV tokens are chosen so that the result is a clock in the middle, or none.
void eco_freq_decision(benchmark::State& state) {
  const auto clocks = levels(state.range(0));
  const auto model = belief(clocks);
  const InstanceSpec spec = spec_of(model);
  policy::EcoFreq policy(options(clocks), spec);
  InstanceView view = view_of(spec);
  view.telemetry = Telemetry::Fresh;
  std::int32_t i = 0;
  for (auto _ : state) {
    ++i;
    view.step = report(100 + i % 200, 300'000 + i % 1'000 * 500);
    benchmark::DoNotOptimize(policy.choose(view, Instant(i)));
  }
}
BENCHMARK(eco_freq_decision)->Arg(2)->Arg(5);

/// One what-if over all instances, with requests distributed so that many instances are close to a tile border.
void eco_route_decision(benchmark::State& state) {
  const auto clocks = levels(state.range(1));
  const auto model = belief(clocks);
  const InstanceSpec spec = spec_of(model);
  policy::EcoRouteOptions o;
  o.spare_overloaded = false;
  policy::EcoRoute policy(o, {options(clocks).clocks, 0.0});
  std::vector<InstanceView> views(static_cast<std::size_t>(state.range(0)));
  std::vector<const InstanceView*> candidates;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const auto n = static_cast<std::int32_t>(i);
    views[i].id = InstanceId{n};
    views[i].spec = &spec;
    views[i].telemetry = Telemetry::Fresh;
    views[i].step = report(240 + n * 7 % 40, 300'000 + n * 900);
    views[i].assigned_requests = views[i].step.shape.decode_requests + n % 3;
    views[i].assigned_prompt_tokens = views[i].assigned_requests * 300;
    candidates.push_back(&views[i]);
    policy.observe(event::Joined{views[i]}, Instant());
  }
  RandomStream random(1, "bench");
  Request request;
  request.prompt_tokens = 280;
  std::int64_t now = 0;
  for (auto _ : state) benchmark::DoNotOptimize(policy.route(request, candidates, Instant(++now), random));
}
BENCHMARK(eco_route_decision)->Args({16, 2})->Args({16, 5})->Args({256, 2})->Args({256, 5});

void throttle_step_held(benchmark::State& state) {
  const auto clocks = levels(2);
  const auto model = belief(clocks);
  NoClocks port;
  journal::Sink sink;
  const InstanceSpec spec = spec_of(model);
  Throttle throttle(view_of(spec), std::make_unique<policy::EcoFreq>(options(clocks), spec), Mode::Enforce, port, sink);
  std::int64_t now = 0;
  const auto same = report(100, 100'000);
  for (auto _ : state) benchmark::DoNotOptimize(throttle.step(same, Instant(++now)));
}
BENCHMARK(throttle_step_held);

void throttle_step_asked(benchmark::State& state) {
  const auto clocks = levels(2);
  const auto model = belief(clocks);
  NoClocks port;
  journal::Sink sink;
  const InstanceSpec spec = spec_of(model);
  Throttle throttle(view_of(spec), std::make_unique<policy::EcoFreq>(options(clocks), spec), Mode::Enforce, port, sink);
  std::int64_t now = 0;
  for (auto _ : state) {
    ++now;
    benchmark::DoNotOptimize(throttle.step(report(100 + static_cast<std::int32_t>(now % 2), 100'000), Instant(now)));
  }
}
BENCHMARK(throttle_step_asked);

class NoEngines final : public RequestPort {
 public:
  void start(const Request&, Tag, const RouteDecision&, Instant) override {}
  void hand_over(const Request&, Tag, InstanceId, const RouteDecision&, Instant) override {}
  Served refuse(const Request&, Tag, Refusal, const char*, Instant) override { return {}; }
};

/// Everything the dispatcher does for one request with 1,000 others in flight: least-loaded over n instances.
void dispatcher_cycle(benchmark::State& state) {
  std::vector<InstanceView> views(static_cast<std::size_t>(state.range(0)));
  const bool split = state.range(1) != 0;
  InstanceSpec prefill;
  prefill.role = Role::Prefill;
  InstanceSpec decode;
  decode.role = Role::Decode;
  for (std::size_t i = 0; i < views.size(); ++i) {
    views[i].id = InstanceId{static_cast<std::int32_t>(i)};
    if (split) views[i].spec = i % 2 == 0 ? &prefill : &decode;
  }
  DispatchPolicies policies;
  policies.admission.policy = std::make_unique<policy::BoundedAdmission>(policy::BoundedAdmissionOptions{});
  policies.queueing.policy = std::make_unique<policy::Fcfs>();
  policies.route_prefill.policy = std::make_unique<policy::LeastLoaded>();
  policies.route_decode.policy = std::make_unique<policy::LeastLoaded>();
  NoEngines port;
  journal::Sink sink;
  FleetLoop dispatcher(std::move(views), std::move(policies), 1, {}, port, sink);
  std::int64_t id = 0;
  const auto arrive = [&] {
    Request request;
    request.id = RequestId{id++};
    request.prompt_tokens = 1'000;
    dispatcher.arrive(request, 0, Instant(id));
    if (split) dispatcher.prefill_done(request.id, Instant(id));
  };
  while (id < 1'000) arrive();
  for (auto _ : state) {
    arrive();
    dispatcher.leave(RequestId{id - 1'001}, Fate::Finished, "", {}, Instant(id));
  }
}
BENCHMARK(dispatcher_cycle)->Args({16, 0})->Args({16, 1})->Args({256, 0});

/// Capacity 50 requests a second for any class and clock.
class FlatProfile final : public LoadProfile {
 public:
  [[nodiscard]] double max_load_per_s(ClassId, MegaHertz) const override { return 50.0; }
  [[nodiscard]] LoadPoint at(ClassId, double load_per_s, MegaHertz clock) const override {
    return {Watts(300.0 + clock.value() * 1e-3 * load_per_s), Span(), Span()};
  }
};

/// The same over nine classes and as many pools of n / 9 instances, with least-energy routing in each.
void pool_cycle(benchmark::State& state) {
  const FlatProfile profile;
  std::vector<InstanceSpec> specs(9);
  FleetLoopOptions options;
  options.service.classes = Classifier({256, 1024}, {100, 350});
  for (std::int32_t p = 0; p < 9; ++p) {
    options.service.pools.push_back({PoolId(p), "", {ClassId(p)}});
    specs[static_cast<std::size_t>(p)].pool = PoolId(p);
    specs[static_cast<std::size_t>(p)].beliefs.load = &profile;
  }
  std::vector<InstanceView> views(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < views.size(); ++i) {
    views[i].id = InstanceId{static_cast<std::int32_t>(i)};
    views[i].spec = &specs[i % 9];
  }
  DispatchPolicies policies;
  policies.route_prefill.policy = std::make_unique<policy::LeastEnergy>();
  NoEngines port;
  journal::Sink sink;
  FleetLoop dispatcher(std::move(views), std::move(policies), 1, options, port, sink);
  std::int64_t id = 0;
  const auto arrive = [&] {
    Request request;
    request.id = RequestId{id++};
    request.prompt_tokens = static_cast<std::int32_t>(100 + 500 * (id % 3));
    request.predicted_output_tokens = static_cast<std::int32_t>(50 + 200 * (id / 3 % 3));
    dispatcher.arrive(request, 0, Instant() + Span::ms(2) * id);
  };
  while (id < 1'000) arrive();
  for (auto _ : state) {
    arrive();
    dispatcher.leave(RequestId{id - 1'001}, Fate::Finished, "", {}, Instant() + Span::ms(2) * id);
  }
}
BENCHMARK(pool_cycle)->Arg(18)->Arg(288);

/// KV capacity per running request: about what requests take at their full length.
constexpr std::int64_t kTokensEach = 900;
constexpr std::int64_t kSmaller = 256;

/// Counts the step times that a forecast requests from the predictor.
class Counted final : public LatencyModel {
 public:
  explicit Counted(const LatencyModel& model) : model_(model) {}
  [[nodiscard]] Span step_time(const StepShape& shape, MegaHertz clock) const override {
    ++asked;
    return model_.step_time(shape, clock);
  }
  void decode_times(std::span<const std::int32_t> requests, std::span<const std::int64_t> kv_tokens, MegaHertz clock,
                    std::span<Span> out) const override {
    asked += static_cast<std::int64_t>(out.size());
    model_.decode_times(requests, kv_tokens, clock, out);
  }
  mutable std::int64_t asked = 0;

 private:
  const LatencyModel& model_;
};

/// Target: at most 50 us with 256 running, 200 us with 512 (1,000 held). One request leaves; held requests are tried
/// until one has to wait, and the clock is chosen again among 81 with the linear predictor. The objective (second
/// argument, s) grows with the batch so that the chosen clock lies inside the range; `asked` and `clock_mhz` show this.
/// It is an error if a larger batch needs fewer predictions than a smaller one.
void throttllem_leave_admit_throttle(benchmark::State& state) {
  std::vector<MegaHertz> clocks;
  for (std::int32_t mhz = 210; mhz <= 1410; mhz += 15) clocks.emplace_back(mhz);
  const auto linear = belief(clocks);
  const Counted model(linear);
  const auto policy = std::make_shared<policy::Throttllem>(policy::ThrottllemOptions{});
  InstanceSpec spec;
  spec.clocks = clocks;
  spec.slo.e2e = Span::s(state.range(1));
  spec.slo.tbt = Span::ms(200);
  spec.beliefs.latency = &model;
  // Room for exactly this number of requests, so that one enters for each that leaves.
  spec.kv_capacity_tokens = state.range(0) * kTokensEach;
  std::vector<InstanceView> views(1);
  views[0].id = InstanceId{0};
  views[0].telemetry = Telemetry::Fresh;
  views[0].spec = &spec;
  DispatchPolicies policies;
  policies.admission = {policy, Mode::Enforce};
  policies.queueing = {std::make_unique<policy::Fcfs>(), Mode::Enforce};
  NoEngines port;
  journal::Sink sink;
  FleetLoop dispatcher(views, std::move(policies), 1, {}, port, sink);
  std::int64_t next = 0;
  Request request;
  request.max_tokens = 1'000;
  const auto arrive = [&] {
    request.id = RequestId{next++};
    request.prompt_tokens = static_cast<std::int32_t>(400 + next * 7 % 200);
    request.predicted_output_tokens = static_cast<std::int32_t>(300 + next * 11 % 300);
    dispatcher.arrive(request, 0, Instant());
  };
  while (dispatcher.counts().held < 1'000) arrive();
  std::int64_t leaves = 0;
  std::int64_t mhz = 0;
  model.asked = 0;
  for (auto _ : state) {
    dispatcher.leave(RequestId{leaves++}, Fate::Finished, "", {}, Instant());
    views[0].step.shape.decode_requests = static_cast<std::int32_t>(dispatcher.counts().dispatched());
    const auto chosen = policy->choose(views[0], Instant());
    benchmark::DoNotOptimize(chosen);
    state.PauseTiming();
    mhz += chosen.clock.value();
    const std::int64_t asked = model.asked;
    while (dispatcher.counts().held < 1'000) arrive();
    model.asked = asked;
    state.ResumeTiming();
  }
  state.counters["running"] = static_cast<double>(dispatcher.counts().dispatched());
  state.counters["clock_mhz"] = static_cast<double>(mhz) / static_cast<double>(leaves);
  const double asked = static_cast<double>(model.asked) / static_cast<double>(leaves);
  state.counters["asked"] = asked;
  static double of_smaller = 0.0;  // the smaller batch runs first
  if (state.range(0) == kSmaller) {
    of_smaller = asked;
  } else if (asked < of_smaller) {
    state.SkipWithError("the larger batch asked for less than the smaller one");
  }
}
BENCHMARK(throttllem_leave_admit_throttle)->Args({kSmaller, 30})->Args({512, 40});

/// Least laxity with this many held requests: the first leaves, no other starts, and a new one arrives.
void least_laxity_held(benchmark::State& state) {
  struct Full final : policy::AdmissionPolicy {
    AdmissionDecision admit(const Request&, const FleetSnapshot&) override { return {Admission::Hold, "full"}; }
    [[nodiscard]] bool reads_steps() const override { return false; }
  };
  DispatchPolicies policies;
  policies.admission = {std::make_shared<Full>(), Mode::Enforce};
  policies.queueing = {std::make_shared<policy::LeastLaxityFirst>(policy::ServiceOptions{}), Mode::Enforce};
  NoEngines port;
  journal::Sink sink;
  FleetLoop loop({InstanceView{}}, std::move(policies), 1, {}, port, sink);
  Request request;
  std::int64_t next = 0;
  const auto arrive = [&] {
    request.id = RequestId(next);
    request.arrival = Instant(next * 100'000);
    request.predicted_output_tokens = static_cast<std::int32_t>(1 + next * 7919 % 1000);
    ++next;
    loop.arrive(request, 0, request.arrival);
  };
  while (loop.counts().held < state.range(0)) arrive();
  std::int64_t leaves = 0;
  for (auto _ : state) {
    arrive();
    loop.leave(RequestId{leaves++}, Fate::Cancelled, "", {}, request.arrival);
  }
}
BENCHMARK(least_laxity_held)->Arg(1'000)->Arg(100'000);

}  // namespace
}  // namespace wattle::control
