#pragma once
// The per-iteration half of the control loop, for all instances of a driver: steps, clocks, the watchdog over steps
// that exceed their prediction, and the samples from which predictors learn (which step is measured, when one has
// overrun). Time is an argument; no locks. The same object runs in the simulator, the agent, the gateway and the parity
// test.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "control/instance_work.h"
#include "control/throttle.h"
#include "journal/summary.h"
#include "model/instance_index.h"
#include "model/telemetry_source.h"
#include "predict/online/online_latency.h"

namespace wattle::control {

/// The driver's interface to the instance loop.
class InstancePort : public ClockPort {
 public:
  /// A model is to be fitted: call learner.refitting() over `samples` on any thread at any time, then
  /// InstanceLoop::refitted(), not from within this call.
  virtual void refit(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples, Instant now) = 0;
  /// The last hold given for this instance is void: fast-forward must not skip the next step.
  virtual void ask_again(InstanceId instance, Instant now) {
    (void)instance;
    (void)now;
  }
  /// The instance is idle, and its policy is to be asked again at `at` unless something happens before: ask_idle(). For
  /// drivers without tick().
  virtual void asks_idle(InstanceId instance, Instant at) {
    (void)instance;
    (void)at;
  }
  /// The measured duration of a step that took `duration`; a simulated measurement may have an error.
  virtual Span measured(Span duration) { return duration; }
  /// Its learner gets this sample, measured here; for others with the same belief.
  virtual void learns(InstanceId instance, const predict::StepSample& sample) {
    (void)instance;
    (void)sample;
  }
};

struct InstanceLoopOptions {
  /// Telemetry is lost if work is in flight and nothing has come for this long since the step in progress should have
  /// ended.
  Span lost_after = Span::s(2);
  /// An engine that has not reported anything for this long may be one that does not report at all.
  Span silent_after = Span::s(10);
  /// A clock command may take this long to take effect. Steps that begin meanwhile are not measured, and may take the
  /// time of the slower clock.
  Span settle = Span::ms(100);
  /// Where nothing learns, a step is measured this often, for the instance's pace.
  Span paced = Span::ms(100);
};

struct LoopInstance {
  InstanceView view;                                   ///< only id, spec and clock_commanded are used; 0 MHz: unknown
  std::shared_ptr<const InstanceSpec> spec = nullptr;  ///< keeps view.spec alive; may be null
  std::shared_ptr<policy::FrequencyPolicy> policy;
  Mode mode = Mode::Enforce;
  Span overrun_slack = Span::max();           ///< see Throttle
  predict::OnlineLatency* learner = nullptr;  ///< view.spec->beliefs.latency if it learns; instances may share one
  StepMoment reports = StepMoment::Starts;    ///< expected until the first report says
};

/// Counts of one instance. Each report is in exactly one of accepted, duplicates, late.
struct TelemetryCounts {
  std::int64_t accepted = 0;
  std::int64_t missed = 0;      ///< sequence numbers skipped
  std::int64_t duplicates = 0;  ///< same number again: dropped
  std::int64_t late = 0;        ///< an older number: dropped
  std::int64_t restarts = 0;    ///< the engine counted from 0 again
  std::int64_t losses = 0;      ///< times telemetry was declared lost
  std::int64_t silent = 0;      ///< 1: nothing ever came, so the clock is that of lost telemetry
};

/// Reports of starting steps are decided upon as they are. A report of an ended step is decided upon for its successor,
/// as far as that can be inferred (next_step); the ended step is measured, from the end of its predecessor, and the
/// successor is watched from there on. Between such reports an idle engine does not announce a step that begins: what
/// the gateway has sent it (work()) is decided upon at once, and an engine with nothing left to do is idle at once.
///
/// A step is measured if its decision was asked for, not held; if the clock at its beginning had taken effect and no
/// command was given before it ended; and if the report of its successor (or of becoming idle) follows without a gap.
/// The successor's decision already uses it: a report ends one step and begins the next, in this order
/// (docs/decisions/0013).
class InstanceLoop {
 public:
  InstanceLoop(InstanceLoopOptions options, InstancePort& port, journal::Sink& sink);

  /// Adds an instance. The id must be higher than any before; ids need not be dense. Returns its position, the last.
  std::size_t add(LoopInstance instance);
  /// Removes the instance: calls about it are ignored, and those behind it move up a position. What was learned there
  /// stays.
  void remove(InstanceId id);
  /// Its position; none: it is gone or unknown.
  [[nodiscard]] std::optional<std::size_t> find(InstanceId id) const { return index_.find(id); }

  /// A report has come over the wire. Dropped and counted (returns false) if its instance is unknown or its number
  /// duplicate or late; otherwise step().
  bool report(const StepReport& report, Instant now);
  /// An iteration starts or has ended, or there is nothing to do. Returns how long the decision holds: fast-forward
  /// must not skip beyond it.
  Hold step(std::size_t i, const StepReport& report, Instant now);
  /// What the gateway has sent there and has not seen leave: stored for the next report only, ...
  void note(std::size_t i, const InstanceWork& work) { entries_[i].work = work, entries_[i].work_is_new = true; }
  /// ... and decided upon (returns true) if reports of ended steps leave that open, or if none come.
  bool work(std::size_t i, const InstanceWork& work, Instant now);
  /// The instance's state as inferred from counts of requests (seen_by_streams, seen_by_gauges): decided upon, unless
  /// step reports come (returns false). It measures and watches no step. It must be repeated within lost_after while
  /// requests are there; otherwise telemetry is lost.
  bool infer(std::size_t i, StepReport seen, TelemetrySource source, Instant now);
  /// When the decision made without step reports, or for an idle instance, is to be made again in any case (tick() does
  /// it); never(): not.
  [[nodiscard]] Instant ask_at(std::size_t i) const { return ask_at(entries_[i]); }
  /// Whether step reports come, or came until less than lost_after ago.
  [[nodiscard]] bool hears_steps(std::size_t i) const { return hears_steps(entries_[i]); }
  /// The source of its newest decision.
  [[nodiscard]] TelemetrySource source(std::size_t i) const { return entries_[i].source; }
  /// A report of an ended step, for view() only, if it is newer: nothing is decided.
  void see(std::size_t i, const StepReport& ended);
  /// How long the newest decision holds, for fast-forward, when this step starts: not at all unless it is the one
  /// decided upon.
  [[nodiscard]] Hold ahead(std::size_t i, const StepReport& starts) const;
  /// A step of this instance that another loop has measured: its belief here learns the same. Ignored if nothing
  /// learns.
  void learn(std::size_t i, const predict::StepSample& sample, Instant now);
  /// The instance has nothing to do, although no report says so.
  void idle(std::size_t i, Instant now);
  /// What InstancePort::asks_idle announced for `now`; no effect if it has become void.
  void ask_idle(std::size_t i, Instant now);
  /// The work in progress there has been lost.
  void cut_off(std::size_t i);
  /// See FrequencyPolicy::finished.
  void finished(std::size_t i, ClassId request_class, std::int64_t requests, std::int64_t late) {
    entries_[i].throttle.finished(request_class, requests, late);
  }
  /// See FrequencyPolicy::handed_over.
  void handed_over(std::size_t i, Span age, Span wait) { entries_[i].throttle.handed_over(age, wait); }
  /// See Throttle::bound.
  void bound(std::size_t i, const std::optional<ClockRange>& range, Instant now);
  /// See Throttle::become. Not if predictors learn.
  void become(std::size_t i, std::shared_ptr<const InstanceSpec> spec, std::shared_ptr<policy::FrequencyPolicy> policy,
              Instant now);
  /// See Throttle::held_to.
  void held_to(std::size_t i, const Slo& slo, Instant now);
  /// See Throttle::boost.
  void boost(std::size_t i, Instant until, Instant now);

  /// Declares telemetry lost and steps overrun when due. An instance that never reported is treated as one whose
  /// telemetry is lost (its engine may run without reports) from silent_after past the first tick, once. For drivers
  /// that get reports over the wire.
  void tick(Instant now);
  /// When tick() is due next; never(): nothing is in flight.
  [[nodiscard]] Instant next_tick() const;

  /// How long a step of this shape that begins at `at` may take before it has overrun; Span::max(): any time.
  [[nodiscard]] Span allowed(std::size_t i, const StepShape& shape, Instant at) const {
    return allowed(entries_[i], shape, at);
  }
  [[nodiscard]] bool watched(std::size_t i) const { return entries_[i].overrun_at != Instant::never(); }
  /// When silence since `since`, the beginning of the step in progress, becomes lost telemetry: lost_after beyond the
  /// step's prediction, if that is plausible.
  [[nodiscard]] Instant lost_at(std::size_t i, Instant since) const;
  [[nodiscard]] Span lost_after() const { return options_.lost_after; }
  /// Declares telemetry lost: the clock is that of lost telemetry until the next report, and the last hold is void. For
  /// drivers that know when an engine is silent, without tick().
  void silent(std::size_t i, Instant now);
  /// When the last commanded clock takes effect.
  [[nodiscard]] Instant settled_from(std::size_t i) const { return entries_[i].settled_from; }
  /// The step in progress has taken longer than allowed. Returns true if that raised the clock; then the last hold is
  /// void.
  bool overrun(std::size_t i, Instant now);

  /// The fit that InstancePort::refit() requested has ended. Returns the model to be freed where time does not matter;
  /// may be null.
  std::shared_ptr<const LatencyModel> refitted(predict::OnlineLatency& learner,
                                               Result<std::shared_ptr<const LatencyModel>> model, Instant now);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] const InstanceView& view(std::size_t i) const { return entries_[i].throttle.view(); }
  /// How long its steps take compared with their predictions.
  [[nodiscard]] const Pace& pace(std::size_t i) const { return entries_[i].pace; }
  /// See Throttle::objectives.
  [[nodiscard]] const std::optional<Slo>& objectives(std::size_t i) const { return entries_[i].throttle.objectives(); }
  [[nodiscard]] const TelemetryCounts& counts(std::size_t i) const { return entries_[i].counts; }
  /// When the newest report came; Instant{} = none yet.
  [[nodiscard]] Instant last_report(std::size_t i) const { return entries_[i].reported; }
  /// Whether its newest report was of an ended step.
  [[nodiscard]] bool ends(std::size_t i) const { return entries_[i].ends; }
  [[nodiscard]] std::int64_t overruns(std::size_t i) const { return entries_[i].throttle.overruns(); }
  /// Sum over all instances, including those that are gone.
  [[nodiscard]] std::int64_t overruns() const;
  [[nodiscard]] std::int64_t disbelieved(std::size_t i) const { return entries_[i].throttle.disbelieved(); }
  [[nodiscard]] std::int64_t unknown_instance() const { return unknown_; }
  /// Each learner once.
  [[nodiscard]] const std::vector<predict::OnlineLatency*>& learners() const { return learners_; }
  /// Accuracy of all of them, weighted by samples; drift is that of the last.
  [[nodiscard]] journal::Prediction prediction() const;

 private:
  struct Entry {
    std::shared_ptr<const InstanceSpec> spec;
    Throttle throttle;
    predict::OnlineLatency* learner = nullptr;
    bool decides = false;  ///< has a policy that is asked
    TelemetryCounts counts{};
    std::int64_t sequence = -1;
    Instant last{};
    Instant reported{};    ///< when the newest step report came
    Instant lost_at{};     ///< when telemetry is lost unless a report comes; at first without the step's prediction
    bool patient = false;  ///< the prediction is included
    bool in_flight = false;
    bool lost = false;
    bool steps_lost = false;  ///< since the newest step report
    bool inferred = false;    ///< a source other than step reports describes the instance
    TelemetrySource source = TelemetrySource::StepStarts;
    bool ends = false;                        ///< reports are of ended steps
    std::optional<InstanceWork> work = {};    ///< none: unknown, or not updated since the report before the newest
    bool work_is_new = false;                 ///< no report has come since
    std::optional<Delivered> delivered = {};  ///< as last reported
    Hold hold{};                              ///< of the newest decision
    Instant idle_until = Instant::never();    ///< nothing is in flight, and that decision holds until then
    Instant since = Instant::never();         ///< time of the first tick
    Instant settled_from{};                   ///< the commanded clock is in effect from then on
    MegaHertz before{};                       ///< the slowest clock that may be in effect until then
    Instant overrun_at = Instant::never();    ///< of the step in progress
    StepReport measuring{};                   ///< the step in progress, if its duration is to be measured
    bool measures = false;
    Pace pace{};
    Instant pace_due{};  ///< a step that begins then or later is to be measured for it
  };
  [[nodiscard]] static bool unheard(const Entry& e) { return e.decides && e.sequence < 0 && !e.lost && !e.inferred; }
  [[nodiscard]] static bool hears_steps(const Entry& e) { return e.sequence >= 0 && !e.steps_lost; }
  bool in_order(Entry& entry, std::int64_t sequence);
  void heard(Entry& entry, Instant now) const {
    entry.last = now;
    entry.lost_at = now + options_.lost_after;
    entry.patient = false;
  }
  void measured(Entry& entry, const StepReport& next, Instant now);
  void refit_if_due(Entry& entry, Instant now);
  /// Lets its throttle act, and notes the clock that this commands.
  template <typename Action>
  void act(Entry& entry, Instant now, Action&& action);
  void decide(Entry& entry, const StepReport& next, bool measurable, Instant now);
  [[nodiscard]] static bool surely_busy(const Entry& entry);
  void begun(Entry& entry, bool measurable, Instant now);
  void rest(Entry& entry, Instant now);
  [[nodiscard]] static Span allowed(const Entry& entry, const StepShape& shape, Instant at);
  [[nodiscard]] static Instant ask_at(const Entry& entry) {
    if (!entry.in_flight) return entry.idle_until;
    const bool stands = hears_steps(entry) || entry.lost || !entry.inferred;
    // One that has ended as it was made is of a policy that wants to be asked each time.
    return stands || entry.hold.until <= entry.last ? Instant::never() : entry.hold.until;
  }
  void lose(Entry& entry, Instant now);
  void beliefs_changed(const predict::OnlineLatency* learner, Instant now);

  InstanceLoopOptions options_;
  InstancePort& port_;
  journal::Sink& sink_;
  InstanceIndex index_;
  std::vector<Entry> entries_;
  std::int64_t overruns_of_gone_ = 0;
  std::vector<predict::OnlineLatency*> learners_;
  std::int64_t unknown_ = 0;
};

}  // namespace wattle::control
