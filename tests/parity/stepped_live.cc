#include "stepped_live.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <tuple>

#include "control/fleet_loop.h"
#include "control/instance_loop.h"
#include "control/plan_executor.h"
#include "control/work_book.h"
#include "engine/handoff.h"
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
  bool arrived = false;  ///< at the decode engine, whose loop has not taken it up yet
  bool operator>(const Transfer& o) const { return std::tie(at, sequence) > std::tie(o.at, o.sequence); }
};

/// An instance on its way: loaded, then warm.
struct Start {
  Instant at;
  InstanceId instance;
  bool warm = false;
};

/// A model in the making.
struct Refitting {
  Instant done;
  predict::OnlineLatency* learner;
  Result<std::shared_ptr<const LatencyModel>> model;
};

class SteppedLive final : public control::RequestPort,
                          public control::InstancePort,
                          public control::FleetPort,
                          public engine::ReplicaObserver {
 public:
  explicit SteppedLive(experiment::PreparedRun& run)
      : run_(run),
        setup_(run.setup),
        link_free_(setup_.instances.size()),
        core_(views(), std::move(setup_.policies), setup_.seed, {}, *this, decisions_),
        agent_(agent_options(), *this, decisions_),
        planner_(std::move(setup_.scaling.policy.policy), setup_.scaling.policy.mode, planner_options(), *this,
                 decisions_) {
    for (std::size_t i = 0; i < setup_.instances.size(); ++i) {
      join(i, Instant());
      if (i < setup_.scaling.shape_of.size()) {
        planner_.adopt(setup_.instances[i].id, setup_.scaling.shape_of[i], Instant());
      }
    }
  }

  std::vector<journal::DecisionRecord> run() {
    for (std::size_t i = 0; i < replicas_.size(); ++i) publish_idle(i, Instant());
    auto row = setup_.source->next();
    for (;;) {
      Instant step = Instant::never();
      std::size_t first = 0;
      for (std::size_t i = 0; i < replicas_.size(); ++i) {
        if (replicas_[i].next_wake() < step) step = replicas_[i].next_wake(), first = i;
      }
      const Instant transfer = transfers_.empty() ? Instant::never() : transfers_.top().at;
      const Instant heartbeat = heartbeats_.empty() ? Instant::never() : heartbeats_.front().start;
      const Instant refit = refits_.empty() ? Instant::never() : refits_.front().done;
      const Instant tick = agent_.next_tick();
      const Instant start = starts_.empty() ? Instant::never() : starts_.front().at;
      const Instant plan = planner_.next_tick();
      const Instant arrival = row ? row->arrival : Instant::never();
      const Instant now = std::min({step, transfer, start, tick, heartbeat, refit, plan, arrival});
      if (now == Instant::never() || (!row && core_.counts().in_flight == 0)) break;
      if (step == now) {
        step_ends(first, now);
      } else if (transfer == now) {
        const Transfer done = transfers_.top();
        transfers_.pop();
        transferred(done, now);
      } else if (start == now) {
        const Start done = starts_.front();
        starts_.pop_front();
        advance(done, now);
      } else if (tick == now) {
        agent_.tick(now);
      } else if (heartbeat == now) {
        const StepReport idle = heartbeats_.front();
        heartbeats_.pop_front();
        const StepReport& is = at(idle.instance).report(now);
        if (!at(idle.instance).dead() && is.sequence == idle.sequence && is.shape.idle()) publish(idle);
      } else if (refit == now) {
        agent_.refitted(*refits_.front().learner, std::move(refits_.front().model), now);
        refits_.pop_front();
      } else if (plan == now) {
        planner_.tick(now);
      } else {
        Request request;
        request.id = RequestId(static_cast<std::int64_t>(jobs_.size()));
        request.arrival = now;
        request.prompt_tokens = row->prompt_tokens;
        request.max_tokens = setup_.max_tokens;
        if (setup_.length_hint) {
          request.predicted_output_tokens = setup_.length_hint->predict(row->output_tokens, request.max_tokens);
        }
        engine::Job& job = jobs_.emplace_back();
        job.tag = static_cast<engine::Tag>(request.id.value());
        job.id = request.id;
        job.arrival = now;
        job.prompt_tokens = row->prompt_tokens;
        job.output_tokens = row->output_tokens;
        planner_.arrived(now, request.request_class);
        core_.arrive(request, static_cast<control::Tag>(request.id.value()), now);
        row = setup_.source->next();
      }
      for (const InstanceId instance : book_.take_changed()) agent_.work(index(instance), book_.of(instance), now);
    }
    return std::move(decisions_.records);
  }

 private:
  void transferred(const Transfer& done, Instant now) {
    const auto tag = static_cast<engine::Tag>(done.request);
    if (!done.arrived) at(done.prefill).release(tag, now);
    if (!done.arrived && setup_.link.handoff_steps > 0.0) {
      const double steps = setup_.link.handoff_steps * engine::handoff_wait(handed_over_++);
      const Span step = at(done.decode).step_length(now);
      transfers_.push({now + Span::from_seconds(step.seconds() * steps), sequence_++, done.request, done.prefill,
                       done.decode, true});
    } else {
      submit(done.request, done.decode, true, now);
    }
    if (!done.arrived) kick(index(done.prefill), now);
  }
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

  control::PlanExecutorOptions planner_options() const {
    control::PlanExecutorOptions options;
    options.period = setup_.scaling.period;
    for (const auto& shape : setup_.scaling.shapes) {
      options.shapes.push_back({shape.gpus, shape.max_load_per_s, setup_.scaling.load_time + setup_.scaling.warm_time});
    }
    return options;
  }
  /// The engine and the agent's half of setup_.instances[i].
  void join(std::size_t i, Instant now) {
    auto& instance = setup_.instances[i];
    agent_.add({view(i), instance.spec, instance.frequency.policy, instance.frequency.mode, instance.overrun_slack,
                instance.learner, moment()});
    engine::ReplicaOptions options;
    options.id = instance.id;
    options.role = instance.spec->role;
    options.engine = setup_.engine;
    options.delays = setup_.clock_delays;
    options.initial_clock = instance.initial_clock;
    options.started = now;
    replicas_.emplace_back(*instance.model, options, *this);
  }
  void advance(const Start& done, Instant now) {
    if (!done.warm) return planner_.up(done.instance, now);
    core_.set_accepting(done.instance, true, now);
    planner_.serving(done.instance, now);
  }
  void perhaps_drained(InstanceId instance, Instant now) {
    const auto& view = core_.instances()[index(instance)];
    if (view.assigned_requests == 0 && !view.accepting) planner_.drained(instance, now);
  }
  // control::FleetPort
  InstanceId spawn(const control::StartOrder& order, Instant now) override {
    const InstanceId id(static_cast<std::int32_t>(replicas_.size()));
    setup_.instances.push_back(setup_.scaling.shapes[order.shape].make(id));
    InstanceView joining = view(index(id));
    joining.accepting = false;
    core_.add_instance(joining, now);
    link_free_.emplace_back();
    join(index(id), now);
    publish_idle(index(id), now);
    starts_.push_back({now + setup_.scaling.load_time, id});
    return id;
  }
  void open(InstanceId instance, Instant now) override {
    const auto member = std::ranges::find(planner_.members(), instance, &control::PlanExecutor::Member::id);
    if (member->phase == journal::Phase::Warming) {
      starts_.push_back({now + setup_.scaling.warm_time, instance, true});
      std::ranges::stable_sort(starts_, {}, &Start::at);
      return;
    }
    core_.set_accepting(instance, true, now);
  }
  void drain(InstanceId instance, Instant now) override {
    core_.set_accepting(instance, false, now);
    perhaps_drained(instance, now);
  }
  void stop(InstanceId instance, Instant now) override {
    at(instance).kill(now);
    std::erase_if(starts_, [instance](const Start& s) { return s.instance == instance; });
    core_.remove_instance(instance, now);
  }

  /// An engine's first report.
  void publish_idle(std::size_t i, Instant now) {
    StepReport idle = replicas_[i].report(now);
    idle.moment = moment();
    idle.start = now;
    publish(idle);
  }

  /// Every report passes through the wire format, as bytes.
  void publish(const StepReport& report) {
    bytes_.clear();
    telemetry::encode_fpm(telemetry::to_fpm(report, "engine", report.start), bytes_);
    const auto message = telemetry::decode_fpm(bytes_);
    StepReport received = telemetry::to_step_report(message.value(), report.instance, report.start);
    const std::size_t i = index(report.instance);
    if (ended()) agent_.note(i, book_.of(report.instance));
    agent_.report(received, report.start);
    if (ended()) return;                                                   // updated on demand
    received.clock = agent_.view(index(report.instance)).clock_commanded;  // the agent's response
    core_.report(received, agent_.pace(i));
  }

  [[nodiscard]] bool ended() const { return setup_.telemetry == TelemetrySource::StepEnds; }
  [[nodiscard]] StepMoment moment() const { return ended() ? StepMoment::Ended : StepMoment::Starts; }
  void kick(std::size_t i, Instant now) {
    if (!replicas_[i].wants_start()) return;
    replicas_[i].start_step(now, [this](const engine::Event& event) {
      first_tokens_[event.tag] = event.at;
      core_.first_token(jobs_[event.tag].id, event.at);
    });
    core_.changed(setup_.instances[i].id);  // it may be in the midst of releasing held requests
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
        if (ended()) book_.prompt_done(job.id, now);
        if (setup_.instances[i].spec->role == Role::Prefill && job.output_tokens > 1) {
          core_.prefill_done(job.id, now);
        } else {
          first_tokens_[job.tag] = event.at;
          core_.first_token(job.id, now);
        }
      } else {
        book_.leave(job.id);
        gateway::TokenTally tally;
        tally.whole(event.output_tokens, first_tokens_[job.tag], now);
        core_.leave(job.id, Fate::Finished, "", tally.served(), now);
        perhaps_drained(setup_.instances[i].id, now);
      }
    }
    kick(i, now);
  }

  // control::RequestPort
  void start(const Request& request, control::Tag, const RouteDecision& at_which, Instant now) override {
    const InstanceId instance = at_which.instance;
    if (ended()) book_.start(request, instance, setup_.instances[index(instance)].spec->role == Role::Prefill, now);
    submit(request.id.value(), instance, false, now);
  }
  void refresh(InstanceId instance, Instant) override {
    if (!ended()) return;
    StepReport shown = agent_.view(index(instance)).step;
    shown.instance = instance;
    shown.clock = agent_.view(index(instance)).clock_commanded;
    core_.report(shown, agent_.pace(index(instance)));
  }
  void hand_over(const Request& request, control::Tag, InstanceId prefill, const RouteDecision& to,
                 Instant now) override {
    const InstanceId decode = to.instance;
    const double bytes = setup_.instances[index(prefill)].spec->llm.kv_bytes_per_token() * request.prompt_tokens;
    auto& free = link_free_[index(prefill)];
    const bool sent = setup_.link.bandwidth_bytes_per_s > 0.0;
    if (sent) free = std::max(free, now) + Span::from_seconds(bytes / setup_.link.bandwidth_bytes_per_s);
    if (ended()) book_.hand_over(request, decode, now);
    transfers_.push({sent ? free + setup_.link.latency : now, sequence_++, request.id.value(), prefill, decode});
  }
  control::Served refuse(const Request&, control::Tag, control::Refusal, const char*, Instant) override { return {}; }
  void handed_over(const control::HandOver& what, Instant) override {
    for (const InstanceId instance : {what.prefill, what.decode})
      agent_.handed_over(index(instance), what.age, what.wait);
  }
  // control::InstancePort
  void command(InstanceId instance, MegaHertz clock, Instant now) override { at(instance).command_clock(clock, now); }
  void refit(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples, Instant now) override {
    refits_.push_back({now + setup_.refit_delay, &learner, learner.refitting()(samples)});
  }
  // engine::ReplicaObserver
  void step_ended(const StepReport& report) override {
    if (ended()) publish(report);
  }
  Hold step_starts(const StepReport& report) override {
    if (!ended()) publish(report);
    return {};  // a real engine does not know holds: it reports every step
  }
  void goes_idle(InstanceId instance, Instant when) override {
    StepReport report = at(instance).report(when);
    if (!ended()) return publish(report);
    report.moment = StepMoment::Ended;
    report.start = when + Span::s(1);
    heartbeats_.push_back(report);
  }
  void power_changes(InstanceId, Instant, Milliwatts, std::int32_t, std::int64_t, MegaHertz) override {}
  void decode_joined(InstanceId, engine::Tag, Instant) override {}
  void decode_left(InstanceId, engine::Tag, Instant) override {}
  void prefill_settled(InstanceId, Instant, std::span<const engine::PrefillShare>) override {}
  void gaps(const engine::TokenGaps&) override {}

  experiment::PreparedRun& run_;
  sim::SimulationSetup& setup_;
  Decisions decisions_;
  std::vector<engine::Job> jobs_;
  std::map<engine::Tag, Instant> first_tokens_;
  std::vector<Instant> link_free_;
  std::priority_queue<Transfer, std::vector<Transfer>, std::greater<>> transfers_;
  std::int64_t sequence_ = 0;
  std::uint64_t handed_over_ = 0;
  std::vector<std::uint8_t> bytes_;
  control::FleetLoop core_;
  control::InstanceLoop agent_;
  control::PlanExecutor planner_;
  std::deque<Start> starts_;
  std::deque<Refitting> refits_;
  std::deque<StepReport> heartbeats_;  ///< due when they start
  control::WorkBook book_;
  std::vector<engine::Replica> replicas_;
};

}  // namespace

std::vector<journal::DecisionRecord> run_stepped_live(experiment::PreparedRun& run) { return SteppedLive(run).run(); }

}  // namespace wattle::parity
