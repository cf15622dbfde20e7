#include "stepped_live.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <tuple>

#include "control/fleet_loop.h"
#include "control/instance_loop.h"
#include "gateway/token_tally.h"
#include "telemetry/fpm.h"

namespace wattle::parity {

namespace {

class Decisions final : public journal::Sink {
 public:
  void decision(const journal::DecisionRecord& record) override { records.push_back(record); }
  std::vector<journal::DecisionRecord> records;
};

struct Transfer {
  Instant at;
  std::int64_t sequence;
  std::int64_t request;
  InstanceId prefill;
  InstanceId decode;
  bool operator>(const Transfer& o) const { return std::tie(at, sequence) > std::tie(o.at, o.sequence); }
};

/// A model in the making.
struct Refitting {
  Instant done;
  predict::OnlineLatency* learner;
  Result<std::shared_ptr<const LatencyModel>> model;
};

class SteppedLive final : public control::RequestPort, public control::InstancePort, public engine::ReplicaObserver {
 public:
  explicit SteppedLive(experiment::PreparedRun& run)
      : run_(run),
        setup_(run.setup),
        link_free_(setup_.instances.size()),
        core_(views(), std::move(setup_.policies), setup_.seed, {}, *this, decisions_),
        agent_(agent_options(), *this, decisions_) {
    for (std::size_t i = 0; i < setup_.instances.size(); ++i) {
      auto& instance = setup_.instances[i];
      agent_.add({view(i), instance.spec, instance.frequency.policy, instance.frequency.mode, instance.overrun_slack,
                  instance.learner});
    }
    replicas_.reserve(setup_.instances.size());
    for (const auto& instance : setup_.instances) {
      engine::ReplicaOptions options;
      options.id = instance.id;
      options.role = instance.spec->role;
      options.engine = setup_.engine;
      options.delays = setup_.clock_delays;
      options.initial_clock = instance.initial_clock;
      replicas_.emplace_back(*instance.model, options, *this);
    }
  }

  std::vector<journal::DecisionRecord> run() {
    for (const auto& instance : setup_.instances) goes_idle(instance.id, Instant());
    auto row = setup_.source->next();
    for (;;) {
      Instant step = Instant::never();
      std::size_t first = 0;
      for (std::size_t i = 0; i < replicas_.size(); ++i) {
        if (replicas_[i].next_wake() < step) step = replicas_[i].next_wake(), first = i;
      }
      const Instant transfer = transfers_.empty() ? Instant::never() : transfers_.top().at;
      const Instant refit = refits_.empty() ? Instant::never() : refits_.front().done;
      const Instant tick = agent_.next_tick();
      const Instant arrival = row ? row->arrival : Instant::never();
      const Instant now = std::min({step, transfer, tick, refit, arrival});
      if (now == Instant::never() || (!row && core_.counts().in_flight == 0)) break;
      if (step == now) {
        step_ends(first, now);
      } else if (transfer == now) {
        const Transfer done = transfers_.top();
        transfers_.pop();
        at(done.prefill).release(static_cast<engine::Tag>(done.request), now);
        submit(done.request, done.decode, true, now);
        kick(index(done.prefill), now);
      } else if (tick == now) {
        agent_.tick(now);
      } else if (refit == now) {
        agent_.refitted(*refits_.front().learner, std::move(refits_.front().model), now);
        refits_.pop_front();
      } else {
        Request request;
        request.id = RequestId(static_cast<std::int64_t>(jobs_.size()));
        request.arrival = now;
        request.prompt_tokens = row->prompt_tokens;
        request.max_tokens = setup_.max_tokens;
        if (setup_.length_hint) {
          request.predicted_output_tokens = setup_.length_hint->predict(row->output_tokens, request.max_tokens);
        }
        jobs_.push_back({static_cast<engine::Tag>(request.id.value()), request.id, now, row->prompt_tokens,
                         row->output_tokens, false, Instant::never()});
        core_.arrive(request, static_cast<control::Tag>(request.id.value()), now);
        row = setup_.source->next();
      }
    }
    return std::move(decisions_.records);
  }

 private:
  static std::size_t index(InstanceId id) { return static_cast<std::size_t>(id.value()); }
  engine::Replica& at(InstanceId id) { return replicas_[index(id)]; }

  InstanceView view(std::size_t i) const {
    const auto& instance = setup_.instances[i];
    InstanceView v;
    v.id = instance.id;
    v.spec = instance.spec.get();
    v.clock_commanded = instance.initial_clock;
    return v;
  }
  std::vector<InstanceView> views() const {
    std::vector<InstanceView> result;
    for (std::size_t i = 0; i < setup_.instances.size(); ++i) result.push_back(view(i));
    return result;
  }
  /// The engines' clocks follow with the simulator's delays, not with a GPU's.
  control::InstanceLoopOptions agent_options() const {
    control::InstanceLoopOptions options;
    options.settle = setup_.clock_delays.call + setup_.clock_delays.transition;
    return options;
  }

  /// Every report goes through the wire format, as bytes.
  void publish(const StepReport& report) {
    bytes_.clear();
    telemetry::encode_fpm(telemetry::to_fpm(report, "engine", report.start), bytes_);
    const auto message = telemetry::decode_fpm(bytes_);
    StepReport received = telemetry::to_step_report(message.value(), report.instance, report.start);
    agent_.report(received, report.start);
    received.clock = agent_.view(index(report.instance)).clock_commanded;  // what the agent answers with
    core_.report(received);
  }

  void kick(std::size_t i, Instant now) {
    if (replicas_[i].wants_start()) replicas_[i].start_step(now);
  }
  void submit(std::int64_t request, InstanceId instance, bool kv_ready, Instant now) {
    auto job = jobs_[static_cast<std::size_t>(request)];
    job.kv_ready = kv_ready;
    at(instance).submit(job, now);
    kick(index(instance), now);
  }
  void step_ends(std::size_t i, Instant now) {
    auto& replica = replicas_[i];
    replica.advance(now);
    const auto events = std::exchange(replica.events(), {});
    for (const auto& event : events) {
      auto& job = jobs_[event.tag];
      if (event.kind == engine::EventKind::FirstToken) {
        job.first_token = event.at;
        core_.first_token(job.id, now);
        if (setup_.instances[i].spec->role == Role::Prefill && job.output_tokens > 1) core_.prefill_done(job.id, now);
      } else {
        gateway::TokenTally tally;
        tally.whole(event.output_tokens, job.first_token, now);
        core_.leave(job.id, Fate::Finished, "", tally.served(), now);
      }
    }
    kick(i, now);
  }

  // control::RequestPort
  void start(const Request& request, control::Tag, InstanceId instance, Instant now) override {
    submit(request.id.value(), instance, false, now);
  }
  void hand_over(const Request& request, control::Tag, InstanceId prefill, InstanceId decode, Instant now) override {
    const double bytes = setup_.instances[index(prefill)].spec->llm.kv_bytes_per_token() * request.prompt_tokens;
    auto& free = link_free_[index(prefill)];
    free = std::max(free, now) + Span::from_seconds(bytes / setup_.link.bandwidth_bytes_per_s);
    transfers_.push({free + setup_.link.latency, sequence_++, request.id.value(), prefill, decode});
  }
  control::Served refuse(const Request&, control::Tag, control::Refusal, const char*, Instant) override { return {}; }
  // control::InstancePort
  void command(InstanceId instance, MegaHertz clock, Instant now) override { at(instance).command_clock(clock, now); }
  void refit(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples, Instant now) override {
    refits_.push_back({now + setup_.refit_delay, &learner, learner.refitting()(samples)});
  }
  // engine::ReplicaObserver
  Hold step_starts(const StepReport& report) override {
    publish(report);
    return {};  // a real engine knows no holds: it reports every step
  }
  void goes_idle(InstanceId instance, Instant when) override {
    StepReport report = replicas_.empty() ? StepReport{} : at(instance).report(when);
    report.instance = instance;
    report.start = when;
    publish(report);
  }
  void power_changes(InstanceId, Instant, Milliwatts, std::int32_t, std::int64_t, MegaHertz) override {}
  void decode_joined(InstanceId, engine::Tag, Instant) override {}
  void decode_left(InstanceId, engine::Tag, Instant) override {}
  void prefill_settled(InstanceId, Instant, std::span<const engine::PrefillShare>) override {}
  void gaps(std::int64_t, std::int64_t, std::int64_t, std::int32_t) override {}

  experiment::PreparedRun& run_;
  sim::SimulationSetup& setup_;
  Decisions decisions_;
  std::vector<engine::Job> jobs_;
  std::vector<Instant> link_free_;
  std::priority_queue<Transfer, std::vector<Transfer>, std::greater<>> transfers_;
  std::int64_t sequence_ = 0;
  std::vector<std::uint8_t> bytes_;
  control::FleetLoop core_;
  control::InstanceLoop agent_;
  std::deque<Refitting> refits_;
  std::vector<engine::Replica> replicas_;
};

}  // namespace

std::vector<journal::DecisionRecord> run_stepped_live(experiment::PreparedRun& run) { return SteppedLive(run).run(); }

}  // namespace wattle::parity
