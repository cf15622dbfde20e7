#pragma once
// The control strand: the one place where the gateway's control loop runs. Events from any thread are handled one at a
// time, by whichever thread finds the strand free; what they decide is delivered to each request on its own loop. What
// requests of one loop say within one of its turns is handled together, at the turn's end: the books then move between
// processors once a turn and not several times a request.
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

/// What moves the bytes of a request. The three calls come on loop()'s thread.
class Stream {
 public:
  virtual ~Stream() = default;
  [[nodiscard]] virtual net::Loop& loop() = 0;
  /// `urgency`: smaller first, for engines that order by it. `decision`: why there; static.
  virtual void on_start(const std::shared_ptr<const Worker>& worker, std::int64_t urgency, const char* decision) = 0;
  virtual void on_hand_over(const std::shared_ptr<const Worker>& decode, const char* decision) = 0;
  virtual void on_refuse(control::Refusal refusal, const char* reason) = 0;
  /// Take it back from its engine where no answer has begun; ControlStrand::withdrawn says what became of it.
  virtual void on_withdraw() = 0;
};

/// Where the control plane's view of an engine comes from.
enum class ViewSource : std::uint8_t {
  StepReports,  ///< the engine's own, one an iteration
  Streams,      ///< what it streams through the gateway: the last resort
};

struct WatchOptions {
  control::InstanceLoopOptions telemetry;
  control::ClockPort* clocks = nullptr;  ///< of instances whose clock is decided here; null: none is
  LiveLedger* ledger = nullptr;          ///< null: energy is not booked
  /// What holds of an instance's pool, for the one that decides its clock elsewhere. Null: nobody.
  std::function<void(InstanceId, const Placed&)> placed = {};
  /// What an instance has of requests has changed, and its engine reports steps when they have ended: for the one that
  /// decides its clock elsewhere. Null: nobody.
  std::function<void(InstanceId, const control::InstanceWork&)> work = {};
  /// A hand-over, said of both its instances, for the one that decides their clocks elsewhere. Null: nobody.
  std::function<void(InstanceId, Span age, Span wait)> handed_over = {};
  /// A request has ended at an instance, likewise. Null: nobody.
  std::function<void(InstanceId, ClassId, bool late)> finished = {};
};

class ControlStrand final : private control::RequestPort, private control::InstancePort {
 public:
  ControlStrand(control::DispatchPolicies policies, std::uint64_t seed, const control::FleetLoopOptions& options,
                const WatchOptions& watch, journal::Sink& sink);

  /// Tokens of a prompt's beginning that its routing policies look at. Any thread.
  [[nodiscard]] std::int32_t reads_prefix() const { return requests_.reads_prefix(); }
  /// `model`: that it asks for, by its place among GatewayOptions::models.
  void arrive(const Request& request, std::shared_ptr<Stream> stream, carbon::ModelId model = {});
  void first_token(RequestId id);
  /// Its answer comes as a whole: no token of it will be seen. `decodes`: it is known to have tokens.
  void unseen(RequestId id, bool decodes);
  void prefill_done(RequestId id);
  void withdrawn(RequestId id, bool taken);
  /// This engine of its own refused the connection, or was lost with not a byte of an answer; `sent`: it may have begun
  /// there. The request goes to another.
  void bounced(RequestId id, InstanceId from, bool sent);
  /// A step report that came at `received`.
  void report(const StepReport& report, Instant received);
  /// What an agent says of an engine, and what it has decided. Any thread.
  void reading(const EngineReading& reading);
  void decided(const journal::DecisionRecord& record);
  /// A planner's plan. On the strand.
  void planned(const journal::PlanRecord& record) { sink_.plan(record); }
  /// What is believed of their engines here learns what agents have measured. Any thread.
  void learn(std::vector<MeasuredStep> steps);
  /// An instance that was not there at the start. Within run() only.
  void joined(const journal::Instance& facts) { sink_.joined(facts); }
  /// What an engine says of its own load at `read`; believed beside our own streams, for requests that others sent
  /// there. Any thread.
  void gauges(InstanceId id, const LoadGauges& gauges, Instant read);
  /// Those whose step reports are not heard. Within run() only.
  [[nodiscard]] bool hears_steps(InstanceId id) const { return watch_.hears_steps(index_.at(id)); }
  struct Gauged {
    LoadGauges said;
    Instant at;
  };
  /// Newest; none: never, or not for long. Within run() only.
  [[nodiscard]] std::optional<Gauged> gauged(InstanceId id, Instant now) const;
  /// Several times a second: notices engines that have fallen silent.
  void tick();
  /// `name`, `charged`: as LiveLedger::Leaving says; `charged` comes on the strand.
  void leave(RequestId id, Fate fate, const char* reason, const control::Served& served,
             const TokenTally::Counted& counted, std::string name = {}, LiveLedger::Charged charged = nullptr);
  /// Runs `task` on the strand, in turn. From any thread; it may have run before this returns, or not yet.
  void run(std::function<void(control::FleetLoop&, Instant)> task);
  /// As run(), but waits until it has run. Not from within the strand.
  void run_and_wait(std::function<void(control::FleetLoop&, Instant)> task);
  /// How an engine's load is known beside our own streams.
  struct Says {
    bool step_reports = false;  ///< some are expected
    bool load_reports = false;  ///< as Worker has it
  };
  /// A further instance, whose id is the next and never comes back. `clock`: its policy where that runs here; its view
  /// is ignored. Within run() only.
  InstanceId add_worker(const InstanceView& view, std::shared_ptr<const net::Endpoint> endpoint,
                        std::optional<std::uint16_t> bootstrap_port, control::LoopInstance clock, Says says,
                        control::ModelMask has, Instant now);
  /// A plan's weights hold from now on, and its clock ranges for as long as their lease. Within run() only, as the next
  /// three.
  void follow(const PutPlan& plan, Instant now);
  /// What the workers' types say of classes and pools; holds while no plan shares requests out.
  void follow_types(std::vector<PoolWeight> weights, Instant now);
  /// Takes off clock ranges whose lease is over: their planner is gone.
  void end_ranges(Instant now);
  [[nodiscard]] const std::vector<ClockRange>& ranges() const { return ranges_; }
  [[nodiscard]] Instant ranges_until() const { return ranges_until_; }
  /// By class, since the start.
  [[nodiscard]] const std::vector<std::int64_t>& arrived() const { return arrived_; }
  /// It is no part of the fleet any more, for good; false: it was not. Requests in it may still leave. Within run()
  /// only.
  bool remove_worker(InstanceId id, Instant now);
  /// Where its requests go from now on. Within run() only.
  void move(InstanceId id, std::shared_ptr<const net::Endpoint> endpoint);
  [[nodiscard]] const std::shared_ptr<const Worker>& worker(InstanceId id) const {
    return places_[index_.at(id)].worker;
  }
  /// Of the step reports and, in nanoseconds, of the way from a report's arrival to the clock command it causes. Within
  /// run() only.
  [[nodiscard]] const control::TelemetryCounts& telemetry(InstanceId id) const { return watch_.counts(index_.at(id)); }
  /// Brings every view up to date, for an observer; policies have it done as they read. Within run() only.
  void look(Instant now);
  /// Nobody meters its energy now. Within run() only.
  [[nodiscard]] bool unmetered(InstanceId id, Instant now) const {
    return ledger_ != nullptr && ledger_->is_unmetered(id, now);
  }
  [[nodiscard]] ViewSource source(InstanceId id, Instant now) const { return source_at(index_.at(id), now); }
  /// That anything is kept of. Within run() only.
  [[nodiscard]] std::size_t instances_kept() const;
  /// Of what is believed here and learns: samples it was given, models that were put to use. Within run() only.
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

  /// Of one loop's thread.
  struct Turn;
  /// At the end of this turn, where this is a loop's thread.
  void post_soon(Event&& event);
  /// Now, behind what waits for the end of this turn.
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
    MegaHertz engine_clock;  ///< as last reported; 0: not
    LoadGauges gauges = {};
    Instant gauges_at = Instant::never();  ///< never: it has said none
    control::InstanceWork others = {};     ///< as its gauges had it, beyond what we had sent there then
  };
  InstanceIndex index_;  ///< of places_ and watch_
  std::vector<Place> places_;
  journal::Sink& sink_;
  WatchOptions watch_options_;
  LiveLedger* ledger_;
  control::WorkBook book_;
  control::InstanceLoop watch_;              ///< sequence numbers, losses, clocks decided here
  std::vector<PoolWeight> planned_;          ///< of the plan in force
  std::vector<PoolWeight> by_type_;          ///< of workers that say which class they are for
  std::vector<ClockRange> ranges_;           ///< of the plan in force
  Instant ranges_until_ = Instant::never();  ///< never: there are none
  std::vector<std::int64_t> arrived_;
  Instant received_ = Instant::never();  ///< of the report being handled
  Histogram report_to_command_ns_;
  std::unique_ptr<control::RefitThread> refits_;  ///< null: nothing has been learnt yet
  std::vector<Delivery> outgoing_;
};

}  // namespace wattle::gateway
