#pragma once
// The per-request half of the control loop: classify, admit, hold, order, route, and exactly one fate per request.
// Driver-neutral and single-threaded.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/emergency.h"
#include "control/pool_objectives.h"
#include "control/pool_router.h"
#include "control/ports.h"
#include "journal/record.h"
#include "journal/summary.h"
#include "model/instance_index.h"
#include "model/objectives.h"
#include "model/plan.h"
#include "model/turned_out.h"
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

/// In slots that are not enforced, everything is admitted, the queue is first come first served, and requests go to the
/// instance with the fewest assigned requests.
struct DispatchPolicies {
  Slot<policy::AdmissionPolicy> admission;
  Slot<policy::QueuePolicy> queueing;
  Slot<policy::RoutingPolicy> route_prefill;  ///< also routes colocated instances
  Slot<policy::RoutingPolicy> route_decode;
  /// Sets Request::predicted_output_tokens on arrival and learns from finished requests; null: predictions stay as they
  /// came.
  std::shared_ptr<predict::LengthBelief> length;

  /// The largest RoutingPolicy::reads_prefix, in tokens.
  [[nodiscard]] std::int32_t reads_prefix() const {
    std::int32_t tokens = 0;
    for (const auto* slot : {&route_prefill, &route_decode}) {
      if (slot->policy && slot->mode != Mode::Off) tokens = std::max(tokens, slot->policy->reads_prefix());
    }
    return tokens;
  }
};

/// Which of a service's models an instance has: bit i is the i-th.
using ModelMask = std::uint64_t;
inline constexpr ModelMask kEveryModel = ~ModelMask{0};
inline constexpr std::size_t kMostModels = 64;

struct FleetLoopOptions {
  std::int64_t max_requests = std::numeric_limits<std::int64_t>::max();  ///< held or in flight; beyond, Refusal::Busy
  /// Both legs of a request are routed and sent at once (SGLang); else decode is routed when prefill ends.
  bool both_legs_at_once = false;
  /// How long a new or returned request is held while no instance that may serve it (with P/D roles: one of each)
  /// accepts requests; then it is refused. Zero: it is refused at once; max(): it is held like any other.
  Span unready_wait = Span::max();
  int models = 1;  ///< number of models that requests may name; at most kMostModels
  /// Tenants, objectives, request classes and pools.
  Service service;
  Slo slo;  ///< of requests without objectives of their own
  EmergencyOptions emergency;
  AnswerOptions answers;
};

/// The life of every request, from its arrival to its one fate, and what the control plane knows of each instance.
///
/// Re-entrant: a port may call back (leave, prefill_done, arrive) from within start, hand_over and refuse.
class FleetLoop {
 public:
  FleetLoop(std::vector<InstanceView> instances, DispatchPolicies policies, std::uint64_t seed,
            const FleetLoopOptions& options, RequestPort& port, journal::Sink& sink);

  /// A new request: request.id must be new, request.arrival is its time of arrival. `model`: the index of the model it
  /// asks for, below kMostModels; only instances that serve it get the request. Returns the request's class.
  ClassId arrive(const Request& request, Tag tag, Instant now, int model = 0);
  /// The request's first token came from the newest step reported of its instance (with prefill and decode apart, of
  /// its decode instance). Ignored when the request is unknown.
  void first_token(RequestId id, Instant now);
  /// The prefill leg has ended (P/D only); the client gets the first token from the decode instance. Chooses the decode
  /// instance now, unless both legs were routed at once; then this only frees the prefill instance. The prefill
  /// instance of a pair (InstanceSpec::decode) hands over to its partner, and to another instance of its pool and site
  /// only if the partner is gone. Without an accepting decode instance the request is refused. Ignored for requests
  /// that are gone or already handed over.
  void prefill_done(RequestId id, Instant now);
  /// Whether it is held or dispatched: neither over nor refused.
  [[nodiscard]] bool has(RequestId id) const { return requests_.contains(id.value()); }
  /// A held or dispatched request is over: journals its outcome, frees its place, and retries held requests. Returns
  /// its tag; none: the request is unknown and the call is ignored (a cancel may cross a finish).
  std::optional<Tag> leave(RequestId id, Fate fate, const char* reason, const Served& served, Instant now);

  /// Follows a RequestPort::preempt() that returned true: the instance has given the request up after `produced`
  /// tokens. It is held again.
  void displaced(RequestId id, std::int32_t produced, Instant now);

  // Calls about an instance that is gone are ignored.
  void report(const StepReport& report, const Pace& pace);
  /// The instance's state has changed since its view was refreshed at the present time.
  void changed(InstanceId id);
  /// Its reports stopped although work is in flight.
  void lost(InstanceId id);
  void set_accepting(InstanceId id, bool accepting, Instant now);
  /// The fleet grew. Ids count up from 0, whatever view.id says, and never come back.
  InstanceId add_instance(InstanceView view, Instant now, ModelMask has = kEveryModel);
  /// Removes the instance for good. Requests in it may still leave.
  void remove_instance(InstanceId id, Instant now);

  /// From now on held requests are in the queue policy's order (true) or first come, first served (false).
  void order_by_policy(bool policy, Instant now);
  [[nodiscard]] bool ordered_by_policy() const {
    return policies_.queueing.policy && policies_.queueing.mode == Mode::Enforce;
  }

  /// From now on requests are distributed over pools by these weights, which belong to a checked plan. Empty: by the
  /// pools of FleetLoopOptions::service, or without pools over all instances alike. Held requests of classes that are
  /// shed entirely are refused.
  void reroute(std::span<const PoolWeight> weights, Instant now);
  [[nodiscard]] std::span<const PoolWeight> weights() const { return weights_; }

  /// From now on arriving requests are sorted into these classes: a plan may change the borders.
  void sort_by(const Classifier& classes, Instant now);
  [[nodiscard]] const Classifier& classes() const { return classes_; }
  /// The objectives of requests.
  [[nodiscard]] const Objectives& objectives() const { return objectives_; }
  /// The objectives that this instance has to keep; null: those of its spec, to which all requests are held. Changes
  /// are announced by RequestPort::held_to.
  [[nodiscard]] const Slo* held_to(InstanceId id) const;

  /// Call at next_tick(): checks for predicted misses of deadlines and acts on them.
  void tick(Instant now);
  /// never(): nothing waits, or the emergency ladder is off.
  [[nodiscard]] Instant next_tick() const;
  /// Whether some held request will be squashed if nothing else happens.
  [[nodiscard]] bool will_squash() const;
  /// The result of RequestPort::withdraw, or of a preempt that had to ask the data plane. `taken`: the instance had not
  /// begun the request and no longer has it; otherwise it continues there.
  void withdrawn(RequestId id, bool taken, Instant now);
  /// The instance to which the request was sent could not be reached, or was lost before the first byte of the answer.
  /// The request is routed again from its first leg, to another instance if there is one. Ignored when the request is
  /// unknown or held.
  void bounced(RequestId id, InstanceId from, Instant now);

  [[nodiscard]] std::int32_t reads_prefix() const { return policies_.reads_prefix(); }  ///< any thread
  [[nodiscard]] std::shared_ptr<const predict::LengthBelief> length() const { return policies_.length; }
  [[nodiscard]] const journal::RequestCounts& counts() const { return counts_; }
  /// Predicted against actual classes of all finished requests.
  [[nodiscard]] const TurnedOut& turned_out() const { return turned_out_; }
  [[nodiscard]] const journal::TokenCounts& tokens() const { return tokens_; }
  /// The fleet's instances, ascending by id.
  [[nodiscard]] std::span<const InstanceView> instances() const { return instances_; }
  /// Null: there is no such instance, or not any more.
  [[nodiscard]] const InstanceView* find(InstanceId id) const;
  /// The same for displays; an empty view for an instance that is gone.
  [[nodiscard]] const InstanceView& shown(InstanceId id) const;
  /// Whether some instance, or with P/D roles one of each, accepts requests.
  [[nodiscard]] bool ready() const { return ready_models_ != 0; }
  [[nodiscard]] bool ready(int model) const { return (ready_models_ >> model & 1) != 0; }

 private:
  /// Why a request is being taken back from its instance.
  struct Withdrawal {
    enum What : std::uint8_t { None, Again, Squash } what = None;
    InstanceId to = kNoInstance;  ///< where it starts again; kNoInstance: routing decides
  };
  struct Entry {
    Entry(const Request& arrived, Tag its_tag, int its_model)
        : request(arrived), tag(its_tag), stated_output_tokens(arrived.predicted_output_tokens), model(its_model) {}
    Request request;  ///< with our prediction of its length
    Tag tag;
    std::int32_t stated_output_tokens;  ///< the prediction with which it arrived
    Instant dispatched;
    Instant computed = Instant::never();  ///< when its prompt was computed, on a prefill instance
    InstanceId prefill = kNoInstance;     ///< none: held
    InstanceId decode = kNoInstance;      ///< of a second leg
    std::int32_t produced = 0;            ///< tokens before it was last displaced
    int model;
    std::int64_t rank = 0;     ///< its rank in running_
    bool may_displace = true;  ///< only once, and not after it was displaced: two requests cannot take turns
    bool answered = false;     ///< its first token has come
    bool prefilling = false;   ///< the prefill instance counts it as well: both legs were bound at once
    Role prefill_role = Role::Colocated;
    std::int64_t held = -1;  ///< its Held::sequence; -1: not held
    std::int64_t key = 0;    ///< the queue policy's key
    Instant held_since = Instant();
    Withdrawal withdrawal = {};
    InstanceId avoided = kNoInstance;  ///< the instance that lost it
  };
  static constexpr const char* kNoPlace = "no instance at a site where its tenant's requests may be";
  static constexpr const char* kUnready = "no instance is ready";
  static constexpr const char* kShed = "shed: the fleet cannot carry its class, try again later";
  struct Held {
    std::int64_t key;  ///< the queue policy's key, or the deadline
    std::int64_t sequence;
    RequestId id;
  };
  /// Heap order of held requests: the smallest (key, sequence) comes out first.
  struct LeavesLater {
    bool operator()(const Held& a, const Held& b) const {
      return a.key != b.key ? a.key > b.key : a.sequence > b.sequence;
    }
  };

  /// Instances that take first legs, and those that take second legs.
  struct Candidates {
    std::vector<const InstanceView*> prefill;
    std::vector<const InstanceView*> decode;
  };
  [[nodiscard]] static const std::vector<const InstanceView*>& of(const Candidates& from, journal::DecisionKind kind);
  /// Those that have the request's model and are where it may be. Valid until the next call.
  [[nodiscard]] std::span<const InstanceView* const> fit_for(const Entry& entry,
                                                             std::span<const InstanceView* const> from);
  /// Chooses the pool and an instance in it; stores the pool in the entry's request.
  RouteDecision pick(journal::DecisionKind kind, Entry& entry, Instant now);
  RouteDecision pick_pool(Entry& entry, Instant now);
  RouteDecision pick_in(PoolId pool, std::span<const InstanceView* const> candidates, Request& request,
                        const char* reason, Instant now);
  RouteDecision pick_among(std::span<const InstanceView* const> candidates, journal::DecisionKind kind,
                           const Request& request, Instant now);
  [[nodiscard]] bool its_pair_accepts(const InstanceView& view) const;
  RouteDecision pick_in_pair(const InstanceView& prefill, const Request& request, Instant now);
  void end_pairs_with(InstanceId decode, Instant now);
  /// Whether some instance, in any phase, is where the request may be.
  [[nodiscard]] bool has_place(const Request& request) const;
  /// Whether no instance accepts it and its waiting time is limited.
  [[nodiscard]] bool unready(const Entry& entry);
  void refuse_unready(Instant now);
  /// `prefilling`: the prefill instance continues to count it.
  void bind(RequestId id, bool prefilling, Instant now);
  void hold(Entry& entry, Instant now);
  std::int64_t policy_key(const Entry& entry, Instant now);
  /// It has been dispatched, or (below) no longer is.
  void runs(Entry& entry, Instant now);
  void runs_no_more(const Entry& entry);
  /// Its instance no longer has it, and it is not over.
  void taken_back(Entry& entry, const char* reason, Instant now);
  void start_again(Entry& entry, const Withdrawal& withdrawal, Instant now);
  [[nodiscard]] RequestId least_urgent(const Entry& for_whom, std::int64_t than);
  /// The first held request of some queue displaces a less urgent running one; one at a time.
  void perhaps_preempt(Instant now);
  bool displace_for(Held first, Instant now);
  /// `bound`: the instance chosen by admission; kNoInstance: routing chooses.
  bool try_start(Entry& entry, const RouteDecision& bound, Instant now);
  void retry_held(Instant now);
  /// Requests held for the same instances: those of one class, model and residency, undivided or not; or all.
  using Line = std::vector<Held>;  ///< a heap by LeavesLater
  [[nodiscard]] Line& line_of(const Entry& entry);
  /// The queue whose first request is to be tried next, of those that did not stop in this round; null: none.
  Line* next_line();
  /// Removes requests that have left from the front of a queue.
  void drop_left(Line& line);
  [[nodiscard]] std::int64_t key_of(const Entry& entry) const;
  /// Sorts held requests into queues again.
  void line_up();
  bool release_first(Line& line, Instant now);
  ClassId turn_away(const Request& request, Refusal refusal, const char* reason, Instant now);
  void shed_held(Instant now);
  void shed_one(RequestId id, const char* reason, Instant now);
  void refuse(RequestId id, Refusal refusal, const char* reason, Instant now);
  Outcome close(const Entry& entry, Fate fate, const char* reason, const Served& served, Instant now);
  // Emergencies.
  [[nodiscard]] bool watches() const { return options_.emergency.mode != Mode::Off; }
  void waits(Instant now) { next_look_ = now > next_look_ ? now + options_.emergency.period : next_look_; }
  void begun(const Entry& entry);
  [[nodiscard]] std::vector<RequestId> waiting_at(const InstanceView& at) const;
  [[nodiscard]] std::vector<RequestId> late(const InstanceView& at, const std::vector<RequestId>& ids, MegaHertz clock,
                                            Instant now) const;
  void look_at(const InstanceView& at, Instant now);
  void look_at_held(Instant now);
  InstanceId in_time(const Entry& entry, InstanceId but, Instant now);
  void withdraw(RequestId id, Withdrawal withdrawal, Instant now);

  [[nodiscard]] InstanceView* view(InstanceId id);
  [[nodiscard]] InstanceView& at(InstanceId id);
  void assign(InstanceId id, const Entry& entry, int sign, Instant now);
  /// Updates the objectives of instances by their pools.
  void hold_to_pools(Instant now);
  void hold_to(std::size_t i, Instant now);
  /// The same for those whose objectives have changed.
  void hold_again(Instant now);
  /// For AnswerGaps: a request with an objective for its whole answer has arrived; it has finished.
  void expect_answer(TierId tier, Instant now);
  void note_answer(const Outcome& outcome, const Slo& slo, Instant now);
  /// Calls visit(id) for each instance that counts the request.
  template <typename Visit>
  static void each_place(const Entry& entry, Visit&& visit) {
    visit(entry.decode == kNoInstance ? entry.prefill : entry.decode);
    if (entry.prefilling) visit(entry.prefill);
  }
  /// Its first token has come.
  void answered(Entry& entry);
  /// Its first token has come from its decode instance: both instances are informed how long it waited since its prompt
  /// was computed.
  void decode_answers(const Entry& entry, Instant now);
  void rebuild_candidates();
  void refresh(std::span<const InstanceView* const> views, Instant now);
  void observe(const Event& event, Instant now);
  /// The snapshot of the pools that the class's requests may go to.
  void narrow(FleetSnapshot& fleet, ClassId request_class);
  /// The request has been dispatched to its pool (+1), or no longer is (-1).
  void count_in_pool(const Entry& entry, int sign);
  AdmissionDecision ask_admission(const Request& request, std::int64_t held_before, Instant now);

  std::vector<InstanceView> instances_;  ///< ascending by id
  InstanceIndex index_;                  ///< of instances_
  Candidates candidates_;
  std::vector<Candidates> by_pool_;      ///< where there are several
  std::vector<std::int64_t> in_flight_;  ///< by pool: dispatched, not yet left
  std::vector<ModelMask> has_;           ///< in order of instances_
  bool models_differ_ = false;           ///< some instance lacks a model
  ModelMask ready_models_ = 0;
  std::vector<Residency> residencies_{1};  ///< distinct ones of tenants; the first: anywhere
  bool some_undivided_ = false;            ///< a request with Request::undivided has arrived
  std::vector<const InstanceView*> fit_;   ///< scratch
  DispatchPolicies policies_;
  struct Observer {
    policy::Policy* policy;
    EventKinds kinds;
  };
  std::vector<Observer> observers_;  ///< each policy once, without those that are off
  RandomStream prefill_random_;      ///< one stream per slot: shadowing one does not shift the other
  RandomStream decode_random_;
  FleetLoopOptions options_;
  Classifier classes_;
  Objectives objectives_;
  PoolRouter pools_;
  PoolObjectives held_to_;           ///< by instance, in order of instances_
  std::vector<AnswerGaps> answers_;  ///< of requests of tiers up to each rank
  Instant answers_seen_;             ///< when limits were last computed
  std::vector<PoolWeight> weights_;
  RequestPort& port_;
  journal::Sink& sink_;
  std::unordered_map<std::int64_t, Entry> requests_;
  std::vector<Line> lines_{1};        ///< including requests that have left, until their turn comes
  std::vector<bool> stopped_{false};  ///< by line, in this round of retries
  std::int64_t left_in_lines_ = 0;    ///< upper bound on held requests that have left but are still in queues
  std::int64_t held_sequence_ = 0;
  std::vector<std::vector<RequestId>> unbegun_;  ///< by instance: without a first token, by dispatch
  std::vector<Instant> boosted_;                 ///< in order of instances_: until when
  Instant next_look_;
  bool by_deadline_ = false;                                 ///< queues are ordered by deadline
  bool preemptive_ = false;                                  ///< the queue policy is, and enforced
  bool strict_ = false;                                      ///< likewise
  std::set<std::pair<std::int64_t, std::int64_t>> running_;  ///< (rank, request), if preemptive_
  RequestId displacing_{-1};                                 ///< announced, not yet taken back
  bool retrying_ = false;
  bool retry_again_ = false;
  journal::RequestCounts counts_;
  TurnedOut turned_out_;
  journal::TokenCounts tokens_;
  std::vector<std::int64_t> refreshed_;  ///< in order of instances_: the round in which its view was last updated
  std::int64_t round_ = 0;               ///< counts events; views are refreshed at most once in each round
};

}  // namespace wattle::control
