#pragma once
// Private to simulate(): one run, from its first event to its last.
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "carbon/ledger.h"
#include "control/work_book.h"
#include "journal/digest_sink.h"
#include "journal/tee.h"
#include "model/instance_index.h"
#include "sim/agenda.h"
#include "sim/clients.h"
#include "sim/engines.h"
#include "sim/gpu_loans.h"
#include "sim/in_flight.h"
#include "sim/lives.h"
#include "sim/simulation.h"
#include "sim/stretch_log.h"
#include "sim/watchdog.h"

namespace wattle::sim {

using engine::Tag;

class Simulation final : public control::RequestPort,
                         public control::InstancePort,
                         public control::FleetPort,
                         public engine::ReplicaObserver {
 public:
  explicit Simulation(SimulationSetup setup)
      : setup_(std::move(setup)),
        statistics_(setup_.service.judged(setup_.slo), setup_.service.classes, setup_.fairness),
        sink_({&digest_, &statistics_}),
        ledger_(setup_.sites),
        engines_(setup_.instances.size()),
        loop_(loop_options(setup_), *this, sink_),
        stretches_(sink_),
        watchdog_(engines_, loop_, agenda_),
        noise_(setup_.seed, "sim.sample_noise"),
        link_free_(setup_.instances.size()),
        requests_(views(), std::move(setup_.policies), setup_.seed, fleet_options(setup_), *this, sink_),
        clients_(setup_.service.tenants, setup_.seed),
        scaler_(std::move(setup_.scaling.policy.policy), setup_.scaling.policy.mode, scaler_options(setup_.scaling),
                *this, sink_) {
    if (setup_.sink != nullptr) sink_.add(setup_.sink);
    for (std::size_t i = 0; i < setup_.instances.size(); ++i) {
      set_up(i, Instant());
      if (i < setup_.scaling.shape_of.size()) adopt(i);
    }
    if (!setup_.scaling.weights.empty()) {
      requests_.reroute(setup_.scaling.weights, Instant());
      scaler_.adopt(setup_.scaling.weights, {});
    }
    for (const auto& fault : setup_.faults) {
      Event event{fault.at, EventClass::Fault, 0, 0, 0, fault.instance, fault.down};
      if (fault.node) {
        event.event_class = EventClass::NodeFault;
        event.node = *fault.node;
      } else if (fault.clock_share) {
        event.event_class = EventClass::Hot;
      }
      event.clock_share = fault.clock_share.value_or(0.0);
      agenda_.push(event);
    }
  }

  SimulationResult run();
  /// That anything is kept of.
  [[nodiscard]] std::size_t instances_kept() const;

  // control::RequestPort
  void start(const Request& request, Tag tag, const RouteDecision& at, Instant now) override;
  bool preempt(const Request& request, Tag tag, InstanceId instance, bool answered, Instant now) override;
  void in_vain(const Request& request, Tag tag, InstanceId prefill, Instant now) override;
  void hand_over(const Request& request, Tag tag, InstanceId prefill, const RouteDecision& to, Instant now) override;
  control::Served refuse(const Request& request, Tag tag, control::Refusal refusal, const char* reason,
                         Instant now) override;
  void refresh(InstanceId instance, Instant now) override;
  void withdraw(const Request& request, Tag tag, InstanceId instance, Instant now) override;
  void boost(InstanceId instance, Instant until, Instant now) override;
  void handed_over(const control::HandOver& what, Instant now) override;
  void finished(InstanceId instance, ClassId request_class, bool late) override;
  void held_to(InstanceId instance, const Slo& slo, Instant now) override { loop_.held_to(index(instance), slo, now); }
  // control::FleetPort
  InstanceId spawn(const control::StartOrder& order, Instant now) override;
  void open(InstanceId instance, Instant now) override;
  void drain(InstanceId instance, Instant now) override;
  void stop(InstanceId instance, Instant now) override;
  void squeeze(InstanceId instance, double lost, Instant now) override;
  void reroute(std::span<const PoolWeight> weights, Instant now) override { requests_.reroute(weights, now); }
  void bound(std::span<const ClockRange> clocks, Instant now) override;
  // control::ClockPort
  void command(InstanceId instance, MegaHertz clock, Instant now) override {
    engines_[index(instance)].command_clock(clock, now);
    engines_.wake(index(instance));
  }
  // control::InstancePort
  void refit(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples, Instant now) override;
  void ask_again(InstanceId instance, Instant now) override { engines_.interrupt(index(instance), now); }
  void asks_idle(InstanceId instance, Instant at) override {
    agenda_.push({at, EventClass::IdleAsk, 0, 0, 0, instance, Span()});
  }
  Span measured(Span duration) override;
  // engine::ReplicaObserver
  void step_ended(const StepReport& report) override;
  Hold step_starts(const StepReport& report) override;
  void goes_idle(InstanceId instance, Instant at) override;
  void power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                     std::int64_t prefill_tokens, MegaHertz clock) override;
  void decode_joined(InstanceId instance, Tag tag, Instant at) override {
    ledger_.decode_joined(instance, flights_[tag].account, at);
  }
  void decode_left(InstanceId instance, Tag tag, Instant at) override {
    ledger_.decode_left(instance, flights_[tag].account, at);
  }
  void prefill_settled(InstanceId instance, Instant at, std::span<const engine::PrefillShare> shares) override;
  void gaps(const engine::TokenGaps& of) override {
    statistics_.add_gaps(of.first, of.increment, of.steps, of.requests, of.within);
  }

 private:
  void adopt(std::size_t i);
  /// Positions hold within an event: an instance that goes is forgotten after it.
  [[nodiscard]] std::size_t index(InstanceId id) const { return index_.at(id); }
  void gone(InstanceId instance, Instant now);
  SimulationResult result_at(Instant end);
  void forget_gone();
  static InstanceView view_of(const InstanceSetup& instance);
  std::vector<InstanceView> views() const;
  static control::PlanExecutorOptions scaler_options(const ScalingSetup& scaling);
  static control::InstanceLoopOptions loop_options(const SimulationSetup& setup);
  static control::FleetLoopOptions fleet_options(const SimulationSetup& setup);
  void set_up(std::size_t i, Instant now);
  /// The clock range that the plan states for it.
  void bound(std::size_t i, Instant now);
  void perhaps_drained(InstanceId instance, Instant now);

  void step_ends(std::size_t i, Instant now);
  void handle(const engine::Event& event, std::size_t i, Instant now);
  void kick(std::size_t i, Instant now);
  void arrive(const workload::TraceRow& row, Instant now);
  void travelled(const Event& event);
  bool given_up(const engine::Event& event, Instant now);
  void transfer_done(const Event& event);
  void handed(const Event& event);
  /// Passes the request to the engine, if both are still there.
  void reaches(const Event& event, bool kv_ready);
  void taken_over(const engine::Event& event);
  void apply_fault(const Event& event);
  void apply_node_fault(const Event& event);
  void limit_clock(const Event& event);
  [[nodiscard]] NodeId node_of(std::size_t i) const;
  void borrow(const control::StartOrder& order, const InstanceSetup& borrower);
  /// The instance is gone: instances to which it had lent GPUs now own them.
  void end_loans(InstanceId gone, Instant now);
  /// GPUs without an instance on nodes in use.
  void book_spare_gpus(Instant now);
  /// Its power beyond that which its lenders draw anyway.
  [[nodiscard]] Milliwatts own_power(InstanceId instance) const;
  void advance_start(const Event& event);
  void sample(Instant now);
  [[nodiscard]] engine::Job job_of(Tag tag);
  void submit(Tag tag, InstanceId instance, bool kv_ready, Instant now);
  void leave(Tag tag, Fate fate, const char* reason, Instant now);
  void lose(Tag tag, InstanceId instance, Instant now);
  control::Served close(Tag tag, Instant now);
  [[nodiscard]] predict::PromptFeatures features_of(const Request& request) const;
  void learn_length(const Request& request, std::int32_t tokens, Instant now);
  void refitted(Instant now);
  [[nodiscard]] bool step_starts_reported() const { return setup_.telemetry == TelemetrySource::StepStarts; }
  [[nodiscard]] bool ended_reports() const { return setup_.telemetry == TelemetrySource::StepEnds; }
  [[nodiscard]] bool streams_alone() const { return setup_.telemetry == TelemetrySource::Streams; }
  [[nodiscard]] bool gauges_alone() const { return setup_.telemetry == TelemetrySource::Gauges; }
  [[nodiscard]] bool keeps_book() const { return ended_reports() || streams_alone(); }
  [[nodiscard]] control::InstanceWork work_of(InstanceId instance, Instant now);
  void look_again(InstanceId instance, Instant now);
  void look_at(const Event& event);
  void heartbeat(const Event& event);
  void ask_idle(const Event& event);
  void says_idle(std::size_t i, Instant now);
  void tell_work(Instant now);
  void handle(const Event& event);
  void check(Instant now) const;
  void check_fleet() const;

  SimulationSetup setup_;
  journal::DigestSink digest_;
  journal::RunStatistics statistics_;
  journal::Tee sink_;
  carbon::Ledger ledger_;
  GpuLoans loans_;
  InstanceIndex index_;  ///< of setup_.instances, engines_, loop_, lives_, stretches_, watchdog_, link_free_
  Agenda agenda_;
  Engines engines_;
  control::InstanceLoop loop_;
  Lives lives_;
  StretchLog stretches_;
  Watchdog watchdog_;
  control::WorkBook book_;                    ///< where keeps_book()
  std::map<InstanceId, Instant> down_until_;  ///< of instances hit by faults: the latest time
  std::map<NodeId, Instant> node_down_until_;
  struct HotSpell {
    Instant until;
    double share = 1.0;  ///< of the highest clock
  };
  std::map<InstanceId, std::vector<HotSpell>> hot_;  ///< limits of clocks that hold; the lowest applies
  std::map<InstanceId, Instant> looked_at_;          ///< time of the next evaluation, if no step reports trigger it
  RandomStream noise_;
  /// A model that is being fitted.
  struct Refitting {
    predict::OnlineLatency* learner;
    Result<std::shared_ptr<const LatencyModel>> model;
  };
  struct LengthFitting {
    Result<std::shared_ptr<const predict::LengthTrees>> trees;
    Instant done;
  };
  std::optional<LengthFitting> length_fitting_;  ///< none: no length trees are being grown
  std::deque<Refitting> refitting_;              ///< all take equally long, so the first begun is the first done
  InFlightRequests flights_;
  std::vector<Instant> link_free_;
  std::vector<ClockRange> clock_ranges_;
  struct Drawn {
    Milliwatts power;
    std::int32_t decode_requests = 0;
    std::int64_t prefill_tokens = 0;
    MegaHertz clock;
  };
  std::map<InstanceId, Drawn> drawn_;  ///< as reported by engines while GPUs were lent
  std::set<InstanceId> resharded_;     ///< instances that come up warm
  std::vector<InstanceId> gone_;       ///< in the present event
  bool fleet_changed_ = true;          ///< since spare GPUs were counted
  std::uint64_t handed_over_ = 0;
  control::FleetLoop requests_;
  Clients clients_;
  control::PlanExecutor scaler_;
  TurnedOut heard_;                            ///< by scaler_, of what requests turned out to be
  std::vector<engine::Event> handled_;         ///< scratch
  std::vector<carbon::Ledger::Share> booked_;  ///< scratch
  std::int64_t arrivals_ = 0;
  std::int64_t events_ = 0;
  Instant last_left_;
};

}  // namespace wattle::sim
