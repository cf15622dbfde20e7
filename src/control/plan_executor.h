#pragma once
// The slow half of the control loop: asks a planner and carries out its plans, without ever leaving the fleet, or a
// pool that receives requests, without a serving instance through its own actions. Driver-neutral and single-threaded.
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "control/gpu_slots.h"
#include "control/plan_check.h"
#include "control/ports.h"
#include "journal/record.h"
#include "plan/reshard.h"
#include "policy/scaling/scaling.h"

namespace wattle::control {

struct PlanExecutorOptions {
  Span period = Span::s(10);
  /// The policy is asked before a period ends if a sixth of a period has brought more than this multiple of the last
  /// period's rate, by a significant margin; 0: never.
  double surge = 0.0;
  std::vector<policy::Shape> shapes;
  Span retry = Span::s(10);        ///< wait after a failed start; doubles with each further one,
  Span retry_max = Span::s(300);   ///< up to this, until an instance of the shape serves
  Span spawn_limit = Span::max();  ///< an instance that is not up after this is stopped and counts as failed
  std::int32_t at_once = std::numeric_limits<std::int32_t>::max();  ///< upper limit of simultaneous changes
  std::vector<Node> nodes;                                          ///< empty: GPUs are not accounted for
  std::vector<GpuPlace> places;  ///< where instances may be; empty: on any GPUs of a node
  plan::ReshardProblem reshard;  ///< weights, links, memory; its layouts are ignored
  bool weights_beside = false;  ///< an instance that starts beside a serving one gets the weights over its node's links
  bool beside_draining = false;  ///< a draining instance no longer holds its GPUs: a new one shares them meanwhile
};

/// With `weights_beside`, an instance that starts on a node where another one serves gets its weights from that one's
/// GPUs, and is up as soon as a re-shard's would be, if that is sooner than its shape's start.
///
/// Counts are reached by shadow instancing: missing instances are called back from draining or started; surplus ones
/// serve until all wanted ones serve, and then drain (earlier only if they hold missing GPUs). An instance that is no
/// longer wanted before it serves is stopped. One that dies is replaced: at once if it served, after a pause if it was
/// starting.
///
/// An outdated instance (FleetMember::outdated) counts for nothing that is wanted, so that one like it takes its place,
/// one after the other where they need the GPUs; it is not called back. If nothing else serves and there is room for no
/// other, it leaves first.
///
/// A pair (policy::Shape::pair) is one member of two instances. Both start at once, and it serves when both do. Its
/// prefill instance drains first, then the decode instance, which takes what comes from there; then both end. If one
/// dies, the other gets no new requests, finishes its work and ends, and another pair starts: halves are not paired
/// again, because computed prompts are at one and their answers at the other. If one dies before the pair serves, both
/// end. Pairs are neither moved nor re-sharded.
///
/// Stated steps begin in order, each as soon as it leaves no pool without a serving instance; changes that counts
/// require run in parallel and treat the steps as done. A re-shard lets the old instances serve until the new ones do
/// if memory holds both (plan::plan_reshard); otherwise they leave first. A newer plan drops steps that have not begun;
/// a re-shard that has begun is finished if the newer plan still wants instances like its new ones or one of them
/// serves, otherwise rolled back. Weights take effect once every pool they name serves, clock ranges at once.
///
/// Re-entrant: a port may call serving() from within open() and drained() from within drain().
class PlanExecutor {
 public:
  /// `policy` may be null or its mode Off: it is never asked. In shadow mode it is asked and journaled only.
  PlanExecutor(std::shared_ptr<policy::ScalingPolicy> policy, Mode mode, PlanExecutorOptions options, FleetPort& port,
               journal::Sink& sink);

  /// An instance that is present already, in any phase: at the start, or when this executor takes over from one that is
  /// gone. An instance without GPUs is assigned some. Two on one GPU are a re-shard in progress; the one adopted later
  /// is its new one. False: no node has room for it.
  bool adopt(FleetMember member, Instant now);
  bool adopt(InstanceId instance, std::size_t shape, Instant now) {
    return adopt({instance, shape, Phase::Serving, now}, now);
  }

  /// Weights and clock ranges that a predecessor put in force.
  void adopt(std::vector<PoolWeight> weights, std::vector<ClockRange> clocks) {
    weights_ = std::move(weights);
    clocks_ = std::move(clocks);
  }

  // Events that the driver reports. Unknown and gone instances are ignored.
  /// In a surge the policy is to be asked at once: next_tick() is now.
  void arrived(Instant now, ClassId request_class = {}, std::int64_t requests = 1) {
    const auto i = static_cast<std::size_t>(request_class.value());
    if (i >= arrivals_.size()) arrivals_.resize(i + 1, 0);
    arrivals_[i] += requests;
    if (options_.surge > 0.0) look_for_surge(now);
  }
  /// Arrivals are unknown for this long: it does not count as time without requests.
  void unheard(Span time) { unheard_ = unheard_ + time; }
  void finished(const TurnedOut& fresh) { turned_out_.add(fresh); }
  void up(InstanceId instance, Instant now);       ///< it answers; open() follows
  void serving(InstanceId instance, Instant now);  ///< it is offered to the dispatcher
  void drained(InstanceId instance, Instant now);  ///< it holds no more requests; ignored unless it drains
  /// An instance that served has died; the policy is to be asked at once: next_tick() is now.
  void died(InstanceId instance, Instant now);
  /// Nothing is started on a failed node until it is up again. The driver also reports each of its instances as died.
  /// The policy is to be asked at once: next_tick() is now.
  void node_is(NodeId node, bool up, Instant now);

  /// Call at next_tick(), or when the policy may have a new plan. Between two periods it is asked with the rates of the
  /// last one, in a surge with those of the surge; the next period is not delayed. A `now` before the last one is
  /// treated as equal to it: controllers' clocks may differ.
  void tick(Instant now);
  [[nodiscard]] Instant next_tick() const { return next_tick_; }
  /// Requests per second by class that tick(now) passes to the policy.
  [[nodiscard]] std::vector<double> rates(Instant now) const;
  [[nodiscard]] bool enforced() const { return policy_ != nullptr && mode_ == Mode::Enforce; }

  /// Whether the plan is not completely carried out and a later tick may act. Before the first plan: enforced() alone.
  [[nodiscard]] bool wants_more();

  using Member = FleetMember;
  /// All instances that are not gone, oldest first.
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  /// The member that this instance is, or of which it is a half; null: it is gone.
  [[nodiscard]] const Member* member_of(InstanceId instance) const;
  /// By shape.
  [[nodiscard]] const std::vector<policy::ShapeCount>& count();
  [[nodiscard]] std::vector<NodeView> nodes() const { return slots_.views(); }
  [[nodiscard]] const std::vector<PoolWeight>& weights() const { return weights_; }
  [[nodiscard]] const std::vector<ClockRange>& clocks() const { return clocks_; }

 private:
  struct Attempts {
    std::int32_t failed = 0;
    Instant not_before;
  };
  /// A step that has begun.
  struct Running {
    StepKind kind;
    std::vector<InstanceId> from = {};  ///< those that are still present
    std::vector<InstanceId> to = {};
    bool leaving_first = false;            ///< a re-shard whose old instances leave before new ones come
    std::vector<StartOrder> waiting = {};  ///< its new instances until they start
    NodeId node{};
    std::vector<std::int32_t> gpus = {};  ///< reserved for them
  };
  /// What a re-shard is asked of the matching, which numbers GPUs from 0.
  struct Relayout {
    plan::ReshardProblem problem;
    std::vector<std::int32_t> gpus;     ///< of the node, by their number there
    std::vector<std::int32_t> joining;  ///< of these, those taken from the node's free ones
    std::int32_t more = 0;              ///< how many GPUs the new instances need beyond the old ones'
  };
  /// The number of instances of a shape wanted at a place, and the present ones.
  struct Need {
    std::size_t shape;
    std::optional<NodeId> node;
    std::optional<PoolId> pool;
    std::int32_t count;
    std::int32_t serving = 0;
    std::int32_t coming = 0;
    double weight = 0.0;
    [[nodiscard]] bool fits(std::size_t of, NodeId at, PoolId in) const {
      return of == shape && (!node || *node == at) && (!pool || *pool == in);
    }
    [[nodiscard]] std::int32_t missing() const { return count - serving - coming; }
  };

  // plan_executor.cc: what is observed, and what counts want
  [[nodiscard]] Member* find(InstanceId instance);
  void enter(Member& member, journal::Phase phase, const char* reason, Instant now);
  void leave(InstanceId instance, const char* reason, Instant now);
  void failed(std::size_t shape, Instant now);
  void ask_soon(Instant at);
  void look_for_surge(Instant now);
  [[nodiscard]] bool counted_enough(Instant now) const;
  void accept(const Plan& plan, Instant now);
  void journal(const Plan& plan, std::int64_t gpus, const char* flaw, Instant now);
  void stop_late_starts(Instant now);
  void carry_out(Instant now);
  bool act(Instant now);
  void take_stock();
  void count_in(Member* member, std::size_t shape, NodeId node, PoolId pool, bool serves);
  InstanceId spawn(StartOrder order, const char* reason, Instant now);
  InstanceId has_started(StartOrder& order, Instant now);
  InstanceId joins(Member member, const char* reason, Instant now);
  bool call_back(Instant now);
  bool start_missing(Instant now);
  bool give_up_coming(Instant now);
  bool drain_surplus(Instant now);
  bool put_weights_in_force(Instant now);
  [[nodiscard]] bool placeable(const Need& need) const;
  [[nodiscard]] std::optional<GpuSlots::Place> room_for(std::size_t shape, std::optional<NodeId> node) const {
    return slots_.place(shape, options_.shapes[shape].gpus, node, options_.shapes[shape].nodes);
  }
  [[nodiscard]] bool may_leave(std::span<const InstanceId> ids) const;
  [[nodiscard]] bool pools_serve(std::span<const PoolWeight> weights, std::span<const InstanceId> without) const;
  [[nodiscard]] bool room_for_a_change() const;

  // plan_pairs.cc: members of one instance or two
  struct Stand {
    GpuSlots::Place place;
    std::optional<GpuSlots::Place> decode;  ///< of a pair
  };
  /// `node`: of the prefill instance, if it is a pair.
  [[nodiscard]] std::optional<Stand> stand_for(std::size_t shape, std::optional<NodeId> node,
                                               std::optional<NodeId> decode_node = {}) const;
  InstanceId start(const Need& need, PoolId pool, Stand stand, const char* reason, Instant now);
  bool settle(Member& member, bool where_it_is);
  void take_gpus(const Member& member);
  void give_gpus(const Member& member);
  void give_up_gpus(Member& member);
  [[nodiscard]] bool both_have(const Member& member, InstanceId half);
  void forget_halves(const Member& member);
  void open(const Member& member, Instant now);
  void end(const Member& member, Instant now);
  void half_died(Member& member, InstanceId half, Instant now);
  [[nodiscard]] bool is_half(const Member& m) const {
    return !bounds_.half_of_pair.empty() && bounds_.half_of_pair[m.shape];
  }

  // plan_steps.cc: stated steps
  enum class Begun : std::uint8_t { Yes, Wait, Never };
  void step_record(StepKind kind, InstanceId about, const char* reason, Instant now);
  bool begin_next(Instant now);
  Begun begin(const PlanStep& step, const char*& why, Instant now);
  Begun begin_start(const PlanStep& step, const char*& why, Instant now);
  Begun begin_leaving(const PlanStep& step, const char*& why, Instant now);
  Begun begin_reshard(const PlanStep& step, const char*& why, Instant now);
  [[nodiscard]] Relayout relayout_of(const PlanStep& step);
  bool place_certainly(Running& running, Relayout& relayout);
  bool advance_running(Instant now);
  /// Why the step has ended; null: it has not.
  const char* advance(Running& step, bool& acted, Instant now);
  void end_step(std::size_t i, const char* reason, Instant now);
  void supersede(Instant now);
  [[nodiscard]] bool still_wanted(const Running& running) const;
  void roll_back(std::size_t i, const char* reason, Instant now);
  void resume_reshards();
  void set_changing();
  [[nodiscard]] bool claimed(InstanceId id) const;  ///< by a step that has begun
  [[nodiscard]] bool about_to_leave(InstanceId id) const;

  std::shared_ptr<policy::ScalingPolicy> policy_;
  Mode mode_;
  PlanExecutorOptions options_;
  FleetPort& port_;
  journal::Sink& sink_;
  GpuSlots slots_;
  std::vector<Member> members_;
  std::vector<InstanceId> ahead_;      ///< halves of pairs that wait for their other half
  std::vector<Attempts> attempts_;     ///< by shape
  bool planned_ = false;               ///< a plan has been accepted
  std::vector<Need> needs_;            ///< by shape
  std::vector<InstanceId> surplus_;    ///< scratch: not needed by any Need
  std::vector<FleetMember*> staying_;  ///< scratch
  std::deque<PlanStep> pending_;
  std::vector<Running> running_;
  std::vector<PoolWeight> weights_;                      ///< in force
  std::optional<std::vector<PoolWeight>> next_weights_;  ///< of the plan, not yet in force
  std::vector<ClockRange> clocks_;
  std::string last_plan_;                   ///< as journalled
  std::vector<policy::ShapeCount> counts_;  ///< scratch
  FleetBounds bounds_;
  std::vector<std::int64_t> arrivals_ = {0};  ///< by request class, in the present period
  std::vector<std::int64_t> looked_at_;       ///< of these, at the last check for a surge
  Instant looked_;
  std::vector<double> surge_;  ///< rates by request class of the surge about which the policy has not been asked yet
  TurnedOut turned_out_;       ///< since the last tick
  std::vector<double> rates_;  ///< by request class, in the last period; empty: none has ended
  Instant counted_from_;       ///< since when `arrivals_` counts
  Span unheard_;               ///< unknown part of the time since then
  Instant period_ends_;
  Instant last_tick_;
  Instant next_tick_;
  bool busy_ = false;   ///< in carry_out
  bool again_ = false;  ///< something changed meanwhile
};

}  // namespace wattle::control
