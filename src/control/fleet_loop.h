#pragma once
// The per-request half of the control loop: classify, admit, hold, order, route, and exactly one fate for each request.
// Driver-neutral and single-threaded.
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "control/ports.h"
#include "journal/record.h"
#include "journal/summary.h"
#include "model/plan.h"
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

struct FleetLoopOptions {
  std::int64_t max_requests = std::numeric_limits<std::int64_t>::max();  ///< inside; beyond, Refusal::Busy
  /// Both legs of a request are bound and sent at once (SGLang); else decode is bound when prefill ends.
  bool both_legs_at_once = false;
  /// Refuse what arrives while no instance, or with P/D roles not one of each, accepts requests; else it is held.
  bool refuse_unready = false;
};

/// The life of every request, from its arrival to its one fate, and what the control plane knows of each instance.
///
/// Re-entrant: a port may call back (leave, prefill_done, arrive) from within start, hand_over and refuse.
class FleetLoop {
 public:
  FleetLoop(std::vector<InstanceView> instances, DispatchPolicies policies, std::uint64_t seed,
            const FleetLoopOptions& options, RequestPort& port, journal::Sink& sink);

  /// request.id must be new, request.arrival is its time of arrival.
  void arrive(const Request& request, Tag tag, Instant now);
  /// Its first token came out of the step last reported of its instance. For policies alone. Ignored when unknown.
  void first_token(RequestId id, Instant now);
  /// The prefill leg has produced its first token (P/D only): binds the decode instance now, unless both legs were
  /// bound at once; then this only frees the prefill instance. Without an accepting decode instance the request is
  /// refused. Ignored for requests that are gone or already handed over.
  void prefill_done(RequestId id, Instant now);
  /// A request that was held or dispatched is over: its outcome is journaled, its place freed, held requests are
  /// retried. Its tag; none: unknown, which is ignored, as a cancel may cross a finish.
  std::optional<Tag> leave(RequestId id, Fate fate, const char* reason, const Served& served, Instant now);

  void report(const StepReport& report);
  /// It does something else since its view was brought up to date, within what happens now.
  void changed(InstanceId id) { refreshed_[static_cast<std::size_t>(id.value())] = -1; }
  /// Reports stopped although work is in flight.
  void lost(InstanceId id) { at(id).telemetry = Telemetry::Lost; }
  void set_accepting(InstanceId id, bool accepting, Instant now);
  /// The fleet grew. The id is the next position, whatever view.id says; ids are never reused.
  InstanceId add_instance(InstanceView view, Instant now);
  /// It is no part of the fleet any more, until it should accept requests again.
  void remove_instance(InstanceId id, Instant now);

  /// The plan in force wants requests shared out over pools like this; empty: any pool is for all.
  void reroute(std::span<const PoolWeight> weights, Instant now);
  [[nodiscard]] std::span<const PoolWeight> weights() const { return weights_; }

  [[nodiscard]] std::shared_ptr<const predict::LengthBelief> length() const { return policies_.length; }
  [[nodiscard]] const journal::RequestCounts& counts() const { return counts_; }
  [[nodiscard]] const journal::TokenCounts& tokens() const { return tokens_; }
  [[nodiscard]] std::span<const InstanceView> instances() const { return instances_; }
  /// Some instance, or with P/D roles one of each, accepts requests.
  [[nodiscard]] bool ready() const { return ready_; }

 private:
  struct Entry {
    Request request;  ///< with our prediction of its length
    Tag tag = 0;
    std::int32_t stated_output_tokens = 0;  ///< the prediction it came with
    Instant dispatched;
    InstanceId prefill = kNoInstance;  ///< none: held
    InstanceId decode = kNoInstance;   ///< of a second leg
    bool prefilling = false;           ///< the prefill instance counts it, too: both legs were bound at once
  };
  struct Held {
    std::int64_t key;
    std::int64_t sequence;
    RequestId id;
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
  bool try_start(RequestId id, InstanceId bound, Instant now);
  void retry_held(Instant now);
  bool release_first(Instant now);
  void refuse(RequestId id, Refusal refusal, const char* reason, Instant now);
  Outcome close(const Entry& entry, Fate fate, const char* reason, const Served& served, Instant now);
  [[nodiscard]] InstanceView& at(InstanceId id);
  void assign(InstanceId id, const Request& request, int sign);
  void rebuild_candidates();
  void refresh(std::span<const InstanceView* const> views, Instant now);
  void observe(const Event& event, Instant now);
  AdmissionDecision ask_admission(const Request& request, std::int64_t held_before, Instant now);

  std::vector<InstanceView> instances_;
  std::vector<bool> gone_;  ///< by instance
  std::vector<const InstanceView*> prefill_candidates_;
  std::vector<const InstanceView*> decode_candidates_;
  DispatchPolicies policies_;
  std::vector<PoolWeight> weights_;
  struct Observer {
    policy::Policy* policy;
    EventKinds kinds;
  };
  std::vector<Observer> observers_;  ///< each policy once, those that are off left out
  RandomStream prefill_random_;      ///< one stream per slot: shadowing one never shifts the other
  RandomStream decode_random_;
  FleetLoopOptions options_;
  RequestPort& port_;
  journal::Sink& sink_;
  std::unordered_map<std::int64_t, Entry> requests_;
  std::vector<Held> held_;  ///< a heap by LeavesLater
  std::int64_t held_sequence_ = 0;
  bool retrying_ = false;
  bool retry_again_ = false;
  bool ready_ = false;
  journal::RequestCounts counts_;
  journal::TokenCounts tokens_;
  std::vector<std::int64_t> refreshed_;  ///< by instance: the round in which its view was last brought up to date
  std::int64_t round_ = 0;               ///< counts what happened; views are refreshed at most once in each
};

}  // namespace wattle::control
