#pragma once
// What the control loop asks of its driver: simulator, gateway, agent, planner. None knows another.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/decision.h"
#include "model/instance.h"
#include "model/outcome.h"
#include "model/plan.h"
#include "model/request.h"
#include "units/quantity.h"

namespace wattle::control {

/// The driver's own handle of a request, given on arrival and passed on in every call about it.
using Tag = std::uint32_t;

/// Why a request was refused, as the client hears it: 429 or 503.
enum class Refusal : std::uint8_t {
  Busy,      ///< admission or a full queue said no
  NotReady,  ///< no instance of the role it needs accepts requests
  Squashed,  ///< it waited for too long, or its class is being shed; it may be tried again elsewhere or later
};

/// What the data plane saw of a request by the time it left.
struct Served {
  std::int32_t prompt_tokens = -1;  ///< as its engine counted them; below 0: not known
  std::int32_t output_tokens = 0;
  Instant first_token = Instant::never();  ///< never: none was produced
  std::optional<Instant> prefill_start;    ///< none: not known; the dispatch is the earliest it can have been
  std::int32_t preemptions = 0;
  std::int64_t gaps_within_itl = 0;
  Span longest_gap;
  std::int32_t cached_prompt_tokens = 0;
  std::optional<Span> whole_gap;  ///< Outcome::whole_gap
  Charge charge;                  ///< booked by the ledger
};

/// A request has had its first token from its decode instance.
struct HandOver {
  InstanceId prefill;
  InstanceId decode;
  Span age;   ///< from its arrival until its prompt was computed
  Span wait;  ///< from then on
};

/// The data plane. Each call may call the loop back, about this request or another.
class RequestPort {
 public:
  virtual ~RequestPort() = default;
  /// Start the request's first leg (the only one when colocated) at this instance, for that reason (static text).
  virtual void start(const Request& request, Tag tag, const RouteDecision& at, Instant now) = 0;
  /// Prefill has ended; move the KV cache and go on at `decode`.
  virtual void hand_over(const Request& request, Tag tag, InstanceId prefill, const RouteDecision& decode,
                         Instant now) = 0;
  /// Its prompt is computed at `prefill`, and nobody is there who could go on: it is held, and begins again.
  virtual void in_vain(const Request& request, Tag tag, InstanceId prefill, Instant now) {
    (void)request, (void)tag, (void)prefill, (void)now;
  }
  /// Take it back from the instance it runs at, for one more urgent; FleetLoop::displaced() or withdrawn() follows,
  /// later, unless it is over before. False: it cannot be taken back. `answered`: its first token has come out.
  virtual bool preempt(const Request& request, Tag tag, InstanceId instance, bool answered, Instant now) {
    (void)request, (void)tag, (void)instance, (void)answered, (void)now;
    return false;
  }
  /// Tell the client no, and say what it has had so far. The loop has forgotten the request.
  virtual Served refuse(const Request& request, Tag tag, Refusal refusal, const char* reason, Instant now) = 0;
  /// Take it back from this instance if that has not begun it. FleetLoop::withdrawn follows, maybe at once; never where
  /// nothing can be taken back.
  virtual void withdraw(const Request& request, Tag tag, InstanceId instance, Instant now) {
    (void)request;
    (void)tag;
    (void)instance;
    (void)now;
  }
  /// Run this instance at its highest clock until then, whatever its policy says.
  virtual void boost(InstanceId instance, Instant until, Instant now) {
    (void)instance;
    (void)until;
    (void)now;
  }
  /// From now on these are the objectives that this instance has to keep (InstanceLoop::held_to). Of one that joins,
  /// FleetLoop::held_to says it.
  virtual void held_to(InstanceId instance, const Slo& slo, Instant now) {
    (void)instance;
    (void)slo;
    (void)now;
  }
  /// For the clocks of both instances (InstanceLoop::handed_over).
  virtual void handed_over(const HandOver& what, Instant now) { (void)what, (void)now; }
  /// A request has ended at this instance; for its clock (InstanceLoop::finished). `late`: it missed an objective.
  virtual void finished(InstanceId instance, ClassId request_class, bool late) {
    (void)instance, (void)request_class, (void)late;
  }
  /// A policy is about to read InstanceView::step, telemetry or clock of this instance: report() what is newest, unless
  /// reports come by themselves as steps begin.
  virtual void refresh(InstanceId instance, Instant now) {
    (void)instance;
    (void)now;
  }
};

class ClockPort {
 public:
  virtual ~ClockPort() = default;
  /// Lock the SM clock of all GPUs of the instance. Takes effect after a delay; the newest command wins.
  virtual void command(InstanceId instance, MegaHertz clock, Instant now) = 0;
};

/// What is to be started.
struct StartOrder {
  std::size_t shape = 0;
  PoolId pool{};
  NodeId node{};
  std::vector<std::int32_t> gpus = {};  ///< of the node; empty: wherever the driver finds some
  /// A re-shard: these have the weights, and may still serve on the same GPUs.
  std::vector<InstanceId> from = {};
  std::optional<Span> load = {};    ///< until it answers; none: what a start takes
  double weight = 0.0;              ///< in weighted turns; 0: its shape's
  InstanceId decode = kNoInstance;  ///< it is the prefill instance of a pair with this one
};

/// Instances that come and go. Ids are the driver's and never reused.
class FleetPort {
 public:
  virtual ~FleetPort() = default;
  /// Starts an instance and says its id. PlanExecutor::up() or died() follows, not from within this call.
  virtual InstanceId spawn(const StartOrder& order, Instant now) = 0;
  /// Let it have requests: it is up, or is called back from draining. PlanExecutor::serving() follows, maybe at once.
  virtual void open(InstanceId instance, Instant now) = 0;
  /// No new requests; those in it go on. PlanExecutor::drained() follows, maybe at once: of a prefill instance when
  /// none is being computed there and every prompt has left.
  virtual void drain(InstanceId instance, Instant now) = 0;
  /// End it. It is empty, or has never served, or does not answer.
  virtual void stop(InstanceId instance, Instant now) = 0;
  /// It has this share less KV cache from now on, while others load beside it; 0: all of it again.
  virtual void squeeze(InstanceId instance, double lost, Instant now) { (void)instance, (void)lost, (void)now; }
  /// The plan's shares hold from now on: FleetLoop::reroute.
  virtual void reroute(std::span<const PoolWeight> weights, Instant now) { (void)weights, (void)now; }
  /// The plan's clock ranges hold from now on, for instances that come later, too: InstanceLoop::bound. A pool that is
  /// not named has none.
  virtual void bound(std::span<const ClockRange> clocks, Instant now) { (void)clocks, (void)now; }
};

}  // namespace wattle::control
