#pragma once
// The agent without its sockets: step reports in, clock commands out, time an argument. The same object runs in the
// agent process and, on a stepped virtual clock, in the parity test.
#include <cstdint>
#include <memory>
#include <vector>

#include "control/throttle.h"
#include "predict/online/online_latency.h"

namespace wattle::control {

struct AgentCoreOptions {
  /// Work is in flight and nothing has been heard for this long: telemetry is lost.
  Span lost_after = Span::s(2);
  /// An engine that has never said anything for this long may be one that does not report at all.
  Span silent_after = Span::s(10);
  /// A clock command may take this long to come into effect; steps that begin meanwhile are not measured, and are
  /// allowed the time of the slower clock.
  Span settle = Span::ms(100);
};

struct AgentInstance {
  InstanceView view;                                   ///< id, spec and clock_commanded count; ids need not be dense
  std::shared_ptr<const InstanceSpec> spec = nullptr;  ///< what keeps view.spec alive; may be null
  std::shared_ptr<policy::FrequencyPolicy> policy;
  Mode mode = Mode::Enforce;
  Span overrun_slack = Span::max();           ///< see control::Throttle
  predict::OnlineLatency* learner = nullptr;  ///< view.spec->beliefs.latency where it learns; instances may share one
};

/// Of one instance. Each report lands in exactly one of accepted, duplicates, late.
struct TelemetryCounts {
  std::int64_t accepted = 0;
  std::int64_t missed = 0;      ///< sequence numbers skipped
  std::int64_t duplicates = 0;  ///< same number again: dropped
  std::int64_t late = 0;        ///< an older number: dropped
  std::int64_t restarts = 0;    ///< the engine began to count from 0 again
  std::int64_t losses = 0;      ///< times telemetry was declared lost
  std::int64_t silent = 0;      ///< 1: nothing ever came, so the clock is that of lost telemetry
};

class AgentCore {
 public:
  AgentCore(std::vector<AgentInstance> instances, AgentCoreOptions options, control::ClockPort& port,
            journal::Sink& sink);

  /// The node grew. Its instance's id must be new.
  void add(AgentInstance instance);
  /// A report has arrived. False: dropped and counted (unknown instance, seen before, late).
  bool report(const StepReport& report, Instant now);
  /// Declares telemetry lost and steps overrun where it is due. An instance that was never heard of is treated as one
  /// whose telemetry is lost (its engine may run without reports) from silent_after past the first tick, once.
  void tick(Instant now);
  /// Each learner once.
  [[nodiscard]] const std::vector<predict::OnlineLatency*>& learners() const { return learners_; }
  /// The model behind `learner` has changed: no decision made with it holds any longer.
  void beliefs_changed(const predict::OnlineLatency* learner);
  /// When tick() next has something to do; never() = nothing is in flight.
  [[nodiscard]] Instant next_tick() const;

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] const InstanceView& view(std::size_t i) const { return entries_[i].throttle.view(); }
  [[nodiscard]] const TelemetryCounts& counts(std::size_t i) const { return entries_[i].counts; }
  /// When the newest report came; Instant{} = none yet.
  [[nodiscard]] Instant last_report(std::size_t i) const { return entries_[i].last; }
  [[nodiscard]] std::int64_t overruns(std::size_t i) const { return entries_[i].throttle.overruns(); }
  [[nodiscard]] std::int64_t disbelieved(std::size_t i) const { return entries_[i].throttle.disbelieved(); }
  [[nodiscard]] std::int64_t unknown_instance() const { return unknown_; }

 private:
  struct Entry {
    std::shared_ptr<const InstanceSpec> spec;
    control::Throttle throttle;
    TelemetryCounts counts;
    std::int64_t sequence = -1;
    Instant last;
    bool in_flight = false;
    bool lost = false;
    bool decides = false;              ///< has a policy that is asked
    Instant since = Instant::never();  ///< of the first tick
    predict::OnlineLatency* learner = nullptr;
    Instant commanded{};                    ///< when the clock was last changed
    MegaHertz before{};                     ///< that command
    Instant overrun_at = Instant::never();  ///< of the step in progress
    StepReport measuring{};                 ///< the step in progress, when its duration is worth knowing
    bool measures = false;
  };
  [[nodiscard]] static bool unheard(const Entry& e) { return e.decides && e.sequence < 0 && !e.lost; }
  void measured(Entry& entry, const StepReport& next);
  void begun(Entry& entry, MegaHertz before, Instant now);
  AgentCoreOptions options_;
  control::ClockPort& port_;
  journal::Sink& sink_;
  std::vector<Entry> entries_;
  std::vector<predict::OnlineLatency*> learners_;
  std::int64_t unknown_ = 0;
};

}  // namespace wattle::control
