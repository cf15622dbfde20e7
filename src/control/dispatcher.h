#pragma once
// The per-request half of the control loop: classify, admit, hold, order, route. Driver-neutral and single-threaded.
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "control/ports.h"
#include "journal/record.h"
#include "policy/admission/admission.h"
#include "policy/queueing/queueing.h"
#include "policy/routing/routing.h"
#include "predict/length_belief.h"

namespace wattle::control {

/// A policy and whether its decisions are acted upon.
template <typename Policy>
struct Slot {
  std::shared_ptr<Policy> policy;
  Mode mode = Mode::Enforce;
};

/// Not enforced means: admission admits, queueing is first come first served, routing is least assigned requests.
struct DispatchPolicies {
  Slot<policy::AdmissionPolicy> admission;
  Slot<policy::QueuePolicy> queueing;
  Slot<policy::RoutingPolicy> route_prefill;  ///< also routes colocated instances
  Slot<policy::RoutingPolicy> route_decode;
  /// Fills in Request::predicted_output_tokens on arrival, learns from what leaves; null: requests stay as they came.
  std::shared_ptr<predict::LengthBelief> length;
};

/// Books: every request that arrived is held, in flight, or has left through exactly one of refuse() and left().
struct DispatchCounts {
  std::int64_t arrived = 0;
  std::int64_t refused = 0;
  std::int64_t left = 0;
  std::int64_t held = 0;
  std::int64_t in_flight = 0;
};

/// Re-entrant: a port may call back (left, prefill_done, arrive) from within start, hand_over and refuse.
class Dispatcher {
 public:
  Dispatcher(std::vector<InstanceView> instances, DispatchPolicies policies, std::uint64_t seed, DispatchPort& port,
             journal::Sink& sink);

  void arrive(const Request& request, Instant now);
  /// Its first token came out of the step last reported of its instance. For policies alone. Ignored when unknown.
  void first_token(RequestId id, Instant now);
  /// The prefill leg has produced its first token (P/D only): binds the decode instance now, not earlier. Without an
  /// accepting decode instance the request is refused. Ignored for requests that are gone or already handed over.
  void prefill_done(RequestId id, Instant now);
  /// Both legs at once (SGLang's bootstrap): binds the decode instance while prefill has yet to run. From within
  /// DispatchPort::start, or later; prefill_done() then only frees the prefill instance. As prefill_done() otherwise.
  void bind_decode(RequestId id, Instant now) { bind(id, true, now); }
  /// A dispatched request is gone, whatever its fate. Frees its place and retries held requests. Ignored when unknown.
  void left(const Outcome& outcome, Instant now);
  /// A held request's client went away. False when it is not held (any more).
  bool cancel_held(RequestId id, Instant now);

  void report(const StepReport& report);
  /// Reports stopped although work is in flight.
  void lost(InstanceId id) { at(id).telemetry = Telemetry::Lost; }
  void set_accepting(InstanceId id, bool accepting, Instant now);
  /// The fleet grew. The id is the next position, whatever view.id says; ids are never reused.
  InstanceId add_instance(InstanceView view, Instant now);
  /// It is no part of the fleet any more, until it should accept requests again.
  void remove_instance(InstanceId id, Instant now);

  [[nodiscard]] std::shared_ptr<const predict::LengthBelief> length() const { return policies_.length; }
  [[nodiscard]] const DispatchCounts& counts() const { return counts_; }
  [[nodiscard]] std::span<const InstanceView> instances() const { return instances_; }

 private:
  struct Flight {
    Request request;
    InstanceId prefill = kNoInstance;
    InstanceId decode = kNoInstance;
    bool prefilling = false;  ///< the prefill instance counts it, too: bind_decode() was early
  };
  struct Held {
    std::int64_t key;
    std::int64_t sequence;
    Request request;
  };
  /// Heap order of held requests: the smallest (key, sequence) comes out first.
  struct LeavesLater {
    bool operator()(const Held& a, const Held& b) const {
      return a.key != b.key ? a.key > b.key : a.sequence > b.sequence;
    }
  };

  InstanceId pick(journal::DecisionKind kind, const Request& request, Instant now);
  /// `prefilling`: the prefill instance goes on counting it.
  void bind(RequestId id, bool prefilling, Instant now);
  void hold(const Request& request, Instant now);
  /// `bound`: where admission wants it; kNoInstance: routing chooses.
  bool try_start(const Request& request, InstanceId bound, Instant now);
  void retry_held(Instant now);
  bool release_first(Instant now);
  [[nodiscard]] InstanceView& at(InstanceId id);
  void assign(InstanceId id, const Request& request, int sign);
  void rebuild_candidates();
  void observe(const Event& event, Instant now);
  AdmissionDecision ask_admission(const Request& request, std::int64_t held_before, Instant now);

  std::vector<InstanceView> instances_;
  std::vector<bool> gone_;  ///< by instance
  std::vector<const InstanceView*> prefill_candidates_;
  std::vector<const InstanceView*> decode_candidates_;
  DispatchPolicies policies_;
  struct Observer {
    policy::Policy* policy;
    EventKinds kinds;
  };
  std::vector<Observer> observers_;  ///< each policy once, those that are off left out
  RandomStream prefill_random_;      ///< one stream per slot: shadowing one never shifts the other
  RandomStream decode_random_;
  DispatchPort& port_;
  journal::Sink& sink_;
  std::unordered_map<std::int64_t, Flight> flights_;
  std::vector<Held> held_;  ///< a heap by LeavesLater
  std::int64_t held_sequence_ = 0;
  bool retrying_ = false;
  bool retry_again_ = false;
  DispatchCounts counts_;
};

}  // namespace wattle::control
