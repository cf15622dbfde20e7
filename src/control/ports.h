#pragma once
// The interfaces to a driver (simulator, gateway, agent or planner) that the control loop uses. Drivers do not know
// each other.
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

/// The driver's handle of a request, given on arrival and passed in each call about the request.
using Tag = std::uint32_t;

/// Why a request was refused; the client gets 429 (Busy) or 503.
enum class Refusal : std::uint8_t {
  Busy,      ///< refused by admission or a full queue
  NotReady,  ///< no instance of the role that it needs accepts requests
  Squashed,  ///< it waited too long, or its class is being shed; the client may try again elsewhere or later
};

/// What the data plane has observed of a request when it leaves.
struct Served {
  std::int32_t prompt_tokens = -1;  ///< as counted by its engine; below 0: unknown
  std::int32_t output_tokens = 0;
  Instant first_token = Instant::never();  ///< never: no token was produced
  std::optional<Instant> prefill_start;    ///< none: unknown; the dispatch is a lower bound
  std::int32_t preemptions = 0;
  std::int64_t gaps_within_itl = 0;
  Span longest_gap;
  std::int32_t cached_prompt_tokens = 0;
  std::optional<Span> whole_gap;  ///< Outcome::whole_gap
  Charge charge;                  ///< booked by the ledger
};

/// A request whose first token has come from its decode instance.
struct HandOver {
  InstanceId prefill;
  InstanceId decode;
  Span age;   ///< from its arrival until its prompt was computed
  Span wait;  ///< from then until its first token
};

/// The data plane. Each call may call the loop back, about this request or another.
class RequestPort {
 public:
  virtual ~RequestPort() = default;
  /// Start the request's first leg (when colocated the only one) at `at.instance`; `at.reason` is static text.
  virtual void start(const Request& request, Tag tag, const RouteDecision& at, Instant now) = 0;
  /// Prefill has ended; move the KV cache to `decode.instance` and go on there.
  virtual void hand_over(const Request& request, Tag tag, InstanceId prefill, const RouteDecision& decode,
                         Instant now) = 0;
  /// Its prompt was computed at `prefill`, but no instance can decode it: the request is held and starts again from its
  /// prompt.
  virtual void in_vain(const Request& request, Tag tag, InstanceId prefill, Instant now) {
    (void)request, (void)tag, (void)prefill, (void)now;
  }
  /// Take the request back from its instance in favour of a more urgent one. FleetLoop::displaced() or withdrawn()
  /// follows later, unless the request ends before. Returns false if it cannot be taken back. `answered`: its first
  /// token has come.
  virtual bool preempt(const Request& request, Tag tag, InstanceId instance, bool answered, Instant now) {
    (void)request, (void)tag, (void)instance, (void)answered, (void)now;
    return false;
  }
  /// Refuse the request to its client. Returns what it has received so far. The loop has already forgotten the request.
  virtual Served refuse(const Request& request, Tag tag, Refusal refusal, const char* reason, Instant now) = 0;
  /// Take the request back from this instance if it has not begun there. FleetLoop::withdrawn follows, possibly at
  /// once, or never if the driver cannot take requests back.
  virtual void withdraw(const Request& request, Tag tag, InstanceId instance, Instant now) {
    (void)request;
    (void)tag;
    (void)instance;
    (void)now;
  }
  /// Run this instance at its highest clock until `until`, whatever its policy decides.
  virtual void boost(InstanceId instance, Instant until, Instant now) {
    (void)instance;
    (void)until;
    (void)now;
  }
  /// The objectives that this instance has to keep from now on (InstanceLoop::held_to). For an instance that joins, ask
  /// FleetLoop::held_to.
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
  /// A policy is about to read InstanceView::step, telemetry or clock of this instance: call report() with the newest
  /// state, unless reports arrive by themselves when steps begin.
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

/// An instance to be started.
struct StartOrder {
  std::size_t shape = 0;
  PoolId pool{};
  NodeId node{};
  std::vector<std::int32_t> gpus = {};  ///< of the node; empty: the driver chooses
  /// In a re-shard: the instances that hold the weights; they may still serve on the same GPUs.
  std::vector<InstanceId> from = {};
  std::optional<Span> load = {};    ///< time until it answers; none: that of an ordinary start
  double weight = 0.0;              ///< in weighted round-robin; 0: its shape's weight
  InstanceId decode = kNoInstance;  ///< if this is the prefill instance of a pair: its decode instance
};

/// Instances that join and leave. Ids are assigned by the driver and never reused.
class FleetPort {
 public:
  virtual ~FleetPort() = default;
  /// Starts an instance and returns its id. PlanExecutor::up() or died() follows, not from within this call.
  virtual InstanceId spawn(const StartOrder& order, Instant now) = 0;
  /// Let it have requests: it is up, or its draining is cancelled. PlanExecutor::serving() follows, possibly at once.
  virtual void open(InstanceId instance, Instant now) = 0;
  /// No new requests; those in it continue. PlanExecutor::drained() follows, possibly at once; for a prefill instance
  /// when it computes nothing and every prompt has left.
  virtual void drain(InstanceId instance, Instant now) = 0;
  /// End it. It is empty, has never served, or does not answer.
  virtual void stop(InstanceId instance, Instant now) = 0;
  /// From now on it lacks the share `lost`, in [0, 1), of its KV cache, while others load weights on its GPUs; 0: it
  /// has all.
  virtual void squeeze(InstanceId instance, double lost, Instant now) { (void)instance, (void)lost, (void)now; }
  /// The plan's weights are in force from now on: FleetLoop::reroute.
  virtual void reroute(std::span<const PoolWeight> weights, Instant now) { (void)weights, (void)now; }
  /// The plan's clock ranges are in force from now on, also for later instances: InstanceLoop::bound. A pool that is
  /// not named has none.
  virtual void bound(std::span<const ClockRange> clocks, Instant now) { (void)clocks, (void)now; }
};

}  // namespace wattle::control
