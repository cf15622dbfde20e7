#pragma once
// Ours: decode instances are filled one after the other, each up to the batch at which a token takes least energy.
#include <cstdint>
#include <vector>

#include "policy/frequency/clock_choice.h"
#include "policy/frequency/recent_spans.h"
#include "policy/routing/routing.h"

namespace wattle::policy {

struct BestBatchOptions {
  double overload_margin = 0.1;  ///< share of slo.itl and slo.ttft kept in reserve, or EcoFreq's margin if more
  double late_handovers = 0.01;  ///< share of first tokens that may wait too long for decode, in [0, 1); 0: any
};

/// A decode step reads the whole model for however many requests, so that half the instances with twice the requests
/// take far less energy, as long as objectives allow such steps. For each kind of instance the best batch is, of those
/// that fill a step up to the objective at one of its clocks, the one with the least energy per token beyond what the
/// instance draws idle; at the mean context of what runs. A request goes where this one fits into the best batch, and
/// of those to the kind that is cheapest, then to the fullest; so that what the load does not need empties. Where it
/// fits nowhere, to the least full by share of its best batch. Between equals, the lowest id.
///
/// A batch takes 70 % of the KV cache at most, for contexts grow. The longest step is slo.itl (else tbt) less the
/// margin. First tokens wait for passes of the engine's loop, each as long as a step: nor is one longer than with what
/// late_handovers of the newest first tokens would have come later than slo.ttft, besides those that would at the
/// highest clock with the load spread evenly.
///
/// Without Beliefs::latency and power, or an objective for gaps, the fewest requests. O(kinds x clocks x log batch +
/// candidates); allocates only when the fleet grows. Never declines.
class BestBatch final : public RoutingPolicy {
 public:
  BestBatch(const BestBatchOptions& options, ClocksOfInstances clocks);
  [[nodiscard]] EventKinds observes() const override {
    return EventKinds::of<event::HandedOver, event::Left, event::Gone>();
  }
  void observe(const Event& event, Instant now) override;
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;

 private:
  /// Of one kind of instance, for one decision.
  struct Best {
    const InstanceSpec* spec = nullptr;
    std::int32_t batch = 0;    ///< requests; 0: none is within the limit
    double cost = 0.0;         ///< energy per token, in mW x s
    Span limit = Span::max();  ///< of a step
    MegaHertz top;             ///< the highest clock of F
    double per_s = 0.0;        ///< tokens a second of this batch
  };
  /// What the newest first tokens of instances of one kind would have borne.
  struct Borne {
    const InstanceSpec* spec = nullptr;
    RecentSpans steps;
  };
  /// What an instance ran when a request was last routed. In between a view may be as old as that.
  struct Ran {
    InstanceId id;
    StepShape shape;
    MegaHertz clock;
  };
  /// Of a pool: when the newest requests came, and the answers that have ended of late.
  struct Traffic {
    std::vector<Instant> came = {};  ///< a ring
    std::size_t oldest = 0;
    double ended = 0.0;
    double tokens = 0.0;
  };
  struct Load {
    double per_s = 0.0;        ///< tokens a second that requests ask for
    std::int32_t even = 1;     ///< requests of an instance, were they spread evenly
    std::int64_t context = 1;  ///< mean KV tokens of a request, as it is or will be
  };
  [[nodiscard]] Best best(const InstanceView& view, const Load& load) const;
  [[nodiscard]] const Best& best_of(const InstanceView& view, const Load& load);
  /// Notes in `ran_` what each candidate runs.
  [[nodiscard]] Load look_at(const Request& request, std::span<const InstanceView* const> candidates, Instant now);
  [[nodiscard]] Traffic& traffic_of(const Request& request);

  BestBatchOptions options_;
  ClocksOfInstances clocks_;
  double margin_;
  std::vector<Borne> borne_;
  std::vector<Traffic> traffic_;  ///< by pool
  std::vector<Ran> ran_;          ///< by id
  std::vector<Best> bests_;       ///< scratch
};

}  // namespace wattle::policy
