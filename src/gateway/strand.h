#pragma once
// The control strand: the only place where the gateway's control loop runs. Events from any thread are handled one at a
// time, by the thread that finds the strand free; decisions are delivered to each request on its own loop. Events of
// one loop within one of its turns are handled together, at the turn's end, so that the loop's state moves between
// processors once per turn instead of several times per request.
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/histogram.h"
#include "control/fleet_loop.h"
#include "control/instance_loop.h"
#include "control/refit_thread.h"
#include "control/work_book.h"
#include "gateway/agent_links.h"
#include "gateway/live_ledger.h"
#include "gateway/placed.h"
#include "gateway/plan_api.h"
#include "gateway/token_tally.h"
#include "gateway/worker.h"
#include "model/instance_index.h"

namespace wattle::gateway {

/// Moves the bytes of a request. Its on_* functions are called on loop()'s thread.
class Stream {
 public:
  virtual ~Stream() = default;
  [[nodiscard]] virtual net::Loop& loop() = 0;
  /// `urgency`: smaller first, for engines that order by it. `decision`: why this worker; static.
  virtual void on_start(const std::shared_ptr<const Worker>& worker, std::int64_t urgency, const char* decision) = 0;
  virtual void on_hand_over(const std::shared_ptr<const Worker>& decode, const char* decision) = 0;
  virtual void on_refuse(control::Refusal refusal, const char* reason) = 0;
  /// Take it back from its engine if no answer has begun; ControlStrand::withdrawn reports the result.
  virtual void on_withdraw() = 0;
};

/// Source of the control plane's view of an engine.
enum class ViewSource : std::uint8_t {
  StepReports,  ///< the engine's own, one per iteration
  Streams,      ///< the streams relayed by the gateway: the last resort
};

struct WatchOptions {
  control::InstanceLoopOptions telemetry;
  control::ClockPort* clocks = nullptr;  ///< for instances whose clock is decided here; null: there are none
  LiveLedger* ledger = nullptr;          ///< null: energy is not booked
  /// Bounds and objectives of an instance, for the process that decides its clock. Null: there is none.
  std::function<void(InstanceId, const Placed&)> placed = {};
  /// An instance's requests have changed, and its engine reports ended steps: for the process that decides its clock.
  /// Null: there is none.
  std::function<void(InstanceId, const control::InstanceWork&)> work = {};
  /// A hand-over, reported for both instances, for the process that decides their clocks. Null: there is none.
  std::function<void(InstanceId, Span age, Span wait)> handed_over = {};
  /// A request has ended at an instance; likewise.
  std::function<void(InstanceId, ClassId, bool late)> finished = {};
};

class ControlStrand final : private control::RequestPort, private control::InstancePort {
 public:
  ControlStrand(control::DispatchPolicies policies, std::uint64_t seed, const control::FleetLoopOptions& options,
                const WatchOptions& watch, journal::Sink& sink);

  /// Number of tokens of a prompt's beginning that its routing policies read. Any thread.
  [[nodiscard]] std::int32_t reads_prefix() const { return requests_.reads_prefix(); }
  /// `model`: the requested one, by its index in GatewayOptions::models.
  void arrive(const Request& request, std::shared_ptr<Stream> stream, carbon::ModelId model = {});
  void first_token(RequestId id);
  /// Its answer comes as a whole: its tokens are not seen individually. `decodes`: it is known to have tokens.
  void unseen(RequestId id, bool decodes);
  void prefill_done(RequestId id);
  void withdrawn(RequestId id, bool taken);
  /// The request's engine refused the connection, or was lost without a byte of an answer; `sent`: the request may have
  /// begun there. It goes to another engine.
  void bounced(RequestId id, InstanceId from, bool sent);
  /// A step report that came at `received`.
  void report(const StepReport& report, Instant received);
  /// An agent's reading of an engine, and its decisions. Any thread.
  void reading(const EngineReading& reading);
  void decided(const journal::DecisionRecord& record);
  /// A planner's plan. On the strand.
  void planned(const journal::PlanRecord& record) { sink_.plan(record); }
  /// Beliefs about their engines here learn what agents have measured. Any thread.
  void learn(std::vector<MeasuredStep> steps);
  /// An instance that joined after the start. Within run() only.
  void joined(const journal::Instance& facts) { sink_.joined(facts); }
  /// An engine's own report of its load at `read`; used in addition to our streams, for requests that others sent
  /// there. Any thread.
  void gauges(InstanceId id, const LoadGauges& gauges, Instant read);
  /// Whether step reports of the instance come. Within run() only.
  [[nodiscard]] bool hears_steps(InstanceId id) const { return watch_.hears_steps(index_.at(id)); }
  struct Gauged {
    LoadGauges said;
    Instant at;
  };
  /// The newest one; none: never, or too old. Within run() only.
  [[nodiscard]] std::optional<Gauged> gauged(InstanceId id, Instant now) const;
  /// Call several times per second: detects engines that have become silent.
  void tick();
  /// `name`, `charged`: as in LiveLedger::Leaving; `charged` is called on the strand.
  void leave(RequestId id, Fate fate, const char* reason, const control::Served& served,
             const TokenTally::Counted& counted, std::string name = {}, LiveLedger::Charged charged = nullptr);
  /// Runs `task` on the strand, in order. From any thread; it may or may not have run when this returns.
  void run(std::function<void(control::FleetLoop&, Instant)> task);
  /// As run(), but waits until it has run. Not from within the strand.
  void run_and_wait(std::function<void(control::FleetLoop&, Instant)> task);
  /// How an engine's load is known in addition to our streams.
  struct Says {
    bool step_reports = false;  ///< expected
    bool load_reports = false;  ///< as in Worker
  };
  /// Adds an instance with the next id; ids are never reused. `clock`: its policy, if that runs here; its view is
  /// ignored. Within run() only.
  InstanceId add_worker(const InstanceView& view, std::shared_ptr<const net::Endpoint> endpoint,
                        std::optional<std::uint16_t> bootstrap_port, control::LoopInstance clock, Says says,
                        control::ModelMask has, Instant now);
  /// A plan's weights are in force from now on, and its clock ranges during their lease. Within run() only, like the
  /// next three.
  void follow(const PutPlan& plan, Instant now);
  /// Weights by the workers' types; in force while no plan has weights.
  void follow_types(std::vector<PoolWeight> weights, Instant now);
  /// Removes clock ranges whose lease has expired: their planner is gone.
  void end_ranges(Instant now);
  [[nodiscard]] const std::vector<ClockRange>& ranges() const { return ranges_; }
  [[nodiscard]] Instant ranges_until() const { return ranges_until_; }
  /// Requests by class, since the start.
  [[nodiscard]] const std::vector<std::int64_t>& arrived() const { return arrived_; }
  /// Removes the instance for good; false: it was not in the fleet. Requests in it may still leave. Within run() only.
  bool remove_worker(InstanceId id, Instant now);
  /// The address to which its requests go from now on. Within run() only.
  void move(InstanceId id, std::shared_ptr<const net::Endpoint> endpoint);
  [[nodiscard]] const std::shared_ptr<const Worker>& worker(InstanceId id) const {
    return places_[index_.at(id)].worker;
  }
  /// Counts of the step reports; and below, in nanoseconds, the times from a report's arrival to the clock command that
  /// it causes. Within run() only.
  [[nodiscard]] const control::TelemetryCounts& telemetry(InstanceId id) const { return watch_.counts(index_.at(id)); }
  /// Updates all views, for an observer; policies have them updated when they read them. Within run() only.
  void look(Instant now);
  /// Whether its energy is not metered at present. Within run() only.
  [[nodiscard]] bool unmetered(InstanceId id, Instant now) const {
    return ledger_ != nullptr && ledger_->is_unmetered(id, now);
  }
  [[nodiscard]] ViewSource source(InstanceId id, Instant now) const { return source_at(index_.at(id), now); }
  /// Number of instances with stored data. Within run() only.
  [[nodiscard]] std::size_t instances_kept() const;
  /// Sums over the learning beliefs here: samples given, models adopted. Within run() only.
  struct Learnt {
    std::int64_t samples = 0;
    std::int64_t adopted = 0;
  };
  [[nodiscard]] Learnt learnt() const;
  [[nodiscard]] const Histogram& report_to_command_ns() const { return report_to_command_ns_; }

 private:
  enum class Kind : std::uint8_t { Arrive, FirstToken, Unseen, Whole, PrefillDone, Report, Reading, Tick, Leave, Run };
  using Task = std::function<void(control::FleetLoop&, Instant)>;
  struct Arriving {
    Request request;
    carbon::ModelId model;
    std::shared_ptr<Stream> stream;
  };
  struct Leaving {
    Fate fate = Fate::Finished;
    const char* reason = "";
    control::Served served;
    TokenTally::Counted counted;
    std::string name;
    LiveLedger::Charged charged;
  };
  struct Reported {
    StepReport report;
    Instant received;
  };
  struct Event {
    Kind kind = Kind::Run;
    RequestId id{-1};
    std::variant<std::monostate, Arriving, Leaving, Reported, EngineReading, Task> more = {};  ///< as the kind says
  };
  enum class Word : std::uint8_t { Start, HandOver, Refuse, Withdraw };
  struct Delivery {
    Word word = Word::Start;
    std::shared_ptr<Stream> stream;
    std::shared_ptr<const Worker> worker;
    control::Refusal refusal = control::Refusal::Busy;
    const char* reason = "";
    std::int64_t urgency = 0;
  };

  /// State of one loop's thread.
  struct Turn;
  /// Posts at the end of this turn, if this is a loop's thread.
  void post_soon(Event&& event);
  /// Posts at once, behind what waits for the end of this turn.
  void post(Event&& event);
  void enter(std::vector<Event>& events);
  void handle(Event& event, Instant at);
  void say(Word word, control::Tag tag, InstanceId instance, control::Refusal refusal, const char* reason);
  static void deliver(const Delivery& delivery);
  void take(const StepReport& report, Instant received, Instant now);
  void watch(Instant now);
  void infer(std::size_t i, Instant now);
  [[nodiscard]] MegaHertz clock_of(std::size_t i) const;
  [[nodiscard]] ViewSource source_at(std::size_t i, Instant now) const;
  void tell_work(Instant now);
  void tell_work(std::size_t i, Instant now);
  [[nodiscard]] control::InstanceWork seen_work(std::size_t i, Instant now) const;
  void never_sent(RequestId id, Instant now);
  void show(std::size_t i, StepReport shown, Instant now);
  void take(const EngineReading& reading, Instant now);
  void share_out(Instant now);
  void bound_all(const std::vector<ClockRange>& ranges, Instant now);
  void bound(const InstanceView& view, Instant now);

  void count(ClassId arrived);
  control::Tag seat(std::shared_ptr<Stream> stream);
  void unseat(control::Tag tag);

  void start(const Request& request, control::Tag tag, const RouteDecision& at, Instant now) override;
  void hand_over(const Request& request, control::Tag tag, InstanceId prefill, const RouteDecision& decode,
                 Instant now) override;
  control::Served refuse(const Request& request, control::Tag tag, control::Refusal refusal, const char* reason,
                         Instant now) override;
  void refresh(InstanceId instance, Instant now) override;
  bool preempt(const Request& request, control::Tag tag, InstanceId instance, bool answered, Instant now) override;
  void withdraw(const Request& request, control::Tag tag, InstanceId instance, Instant now) override;
  void boost(InstanceId instance, Instant until, Instant now) override;
  void held_to(InstanceId instance, const Slo& slo, Instant now) override;
  void handed_over(const control::HandOver& what, Instant now) override;
  void finished(InstanceId instance, ClassId request_class, bool late) override;
  void command(InstanceId instance, MegaHertz clock, Instant now) override;
  void refit(predict::OnlineLatency& learner, std::vector<predict::StepSample> samples, Instant now) override;
  void put_refits_to_use(Instant now);

  std::mutex mutex_;  ///< guards queue_ and busy_ only; never held while an event is handled
  std::vector<Event> queue_;
  bool busy_ = false;
  std::vector<Event> batch_;  ///< being handled; belongs to the thread that set busy_

  // On the strand only.
  Instant last_now_;
  control::FleetLoop requests_;
  std::vector<std::shared_ptr<Stream>> streams_;  ///< by tag
  std::vector<control::Tag> free_tags_;
  struct Place {
    std::shared_ptr<const Worker> worker;
    bool step_reports = false;  ///< expected
    Instant sampled;
    MegaHertz engine_clock;  ///< as last reported; 0: not reported
    LoadGauges gauges = {};
    Instant gauges_at = Instant::never();  ///< never: it has reported none
    control::InstanceWork others = {};     ///< by its gauges, beyond what we had sent there then
  };
  InstanceIndex index_;  ///< of places_ and watch_
  std::vector<Place> places_;
  journal::Sink& sink_;
  WatchOptions watch_options_;
  LiveLedger* ledger_;
  control::WorkBook book_;
  control::InstanceLoop watch_;              ///< sequence numbers, losses, clocks decided here
  std::vector<PoolWeight> planned_;          ///< of the plan in force
  std::vector<PoolWeight> by_type_;          ///< of workers that state their class
  std::vector<ClockRange> ranges_;           ///< of the plan in force
  Instant ranges_until_ = Instant::never();  ///< never: there are none
  std::vector<std::int64_t> arrived_;
  Instant received_ = Instant::never();  ///< of the report being handled
  Histogram report_to_command_ns_;
  std::unique_ptr<control::RefitThread> refits_;  ///< null: nothing has been learned yet
  std::vector<Delivery> outgoing_;
};

}  // namespace wattle::gateway
