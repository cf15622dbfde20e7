#pragma once
// The slow half of the control loop: asks a scaling policy and carries its plan out, one instance at a time, without
// ever leaving the fleet without a serving instance by its own doing. Driver-neutral and single-threaded.
#include <memory>
#include <vector>

#include "control/plan_check.h"
#include "control/ports.h"
#include "journal/record.h"
#include "policy/scaling/scaling.h"

namespace wattle::control {

struct PlanExecutorOptions {
  Span period = Span::s(10);
  std::vector<policy::Shape> shapes;
  Span retry = Span::s(10);        ///< after a failed start; doubles with each one after that, up to
  Span retry_max = Span::s(300);   ///< this, until one of the shape serves
  Span spawn_limit = Span::max();  ///< one that is not up after this is stopped, and counts as failed
};

/// A plan is carried out by shadow instancing: what is missing is called back from draining or started; what is too
/// much goes on serving until all that is wanted serves, and then drains. One that is no longer wanted before it serves
/// is stopped. An instance that dies is replaced: at once when it served, after a pause when it was starting.
///
/// Re-entrant: a port may call serving() from within open() and drained() from within drain().
class PlanExecutor {
 public:
  /// `policy` may be null (nothing is ever asked), so may its mode be Off. `shadow` asks and journals only.
  PlanExecutor(std::shared_ptr<policy::ScalingPolicy> policy, Mode mode, PlanExecutorOptions options, FleetPort& port,
               journal::Sink& sink);

  /// An instance that serves already.
  void adopt(InstanceId instance, std::size_t shape, Instant now);

  // What the driver observes. Unknown and gone instances are ignored.
  void arrived(ClassId request_class = {}, std::int64_t requests = 1) {
    const auto i = static_cast<std::size_t>(request_class.value());
    if (i >= arrivals_.size()) arrivals_.resize(i + 1, 0);
    arrivals_[i] += requests;
  }
  void up(InstanceId instance, Instant now);       ///< it answers; open() follows
  void serving(InstanceId instance, Instant now);  ///< it is offered to the dispatcher
  void drained(InstanceId instance, Instant now);  ///< it holds no request any more; ignored unless it drains
  void died(InstanceId instance, Instant now);

  /// Call at next_tick().
  void tick(Instant now);
  [[nodiscard]] Instant next_tick() const { return next_tick_; }
  [[nodiscard]] bool enforced() const { return policy_ != nullptr && mode_ == Mode::Enforce; }

  /// The plan is not carried out yet, so that a later tick may act. Before the first plan: enforced() alone.
  [[nodiscard]] bool wants_more();

  using Member = FleetMember;
  /// Every instance that is not gone, oldest first.
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  /// By shape.
  [[nodiscard]] const std::vector<policy::ShapeCount>& count();

 private:
  struct Attempts {
    std::int32_t failed = 0;
    Instant not_before;
  };

  [[nodiscard]] Member* find(InstanceId instance);
  [[nodiscard]] Member* last_of(std::size_t shape, bool (*in)(journal::Phase));
  void enter(Member& member, journal::Phase phase, const char* reason, Instant now);
  void leave(InstanceId instance, const char* reason, Instant now);
  void failed(std::size_t shape, Instant now);
  void carry_out(Instant now);
  bool start_or_call_back(Instant now);
  bool give_up_coming(Instant now);
  bool drain_surplus(Instant now);

  std::shared_ptr<policy::ScalingPolicy> policy_;
  Mode mode_;
  PlanExecutorOptions options_;
  FleetPort& port_;
  journal::Sink& sink_;
  std::vector<Member> members_;
  std::vector<Attempts> attempts_;          ///< by shape
  std::vector<std::int32_t> wanted_;        ///< by shape; empty before the first plan
  std::vector<policy::ShapeCount> counts_;  ///< scratch
  FleetBounds bounds_;
  std::vector<std::int64_t> arrivals_ = {0};  ///< by request class, since the last tick
  Instant last_tick_;
  Instant next_tick_;
  bool busy_ = false;   ///< in carry_out
  bool again_ = false;  ///< something changed meanwhile
};

}  // namespace wattle::control
