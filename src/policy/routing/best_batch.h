#pragma once
// Ours: fills decode instances one after the other, each up to the batch of least energy per token.
#include <cstdint>
#include <vector>

#include "policy/frequency/clock_choice.h"
#include "policy/frequency/recent_spans.h"
#include "policy/routing/routing.h"

namespace wattle::policy {

struct BestBatchOptions {
  double overload_margin = 0.1;  ///< share of slo.itl and slo.ttft kept in reserve; EcoFreq's margin if larger
  double late_handovers = 0.01;  ///< share of first tokens that may be late because they waited for a decode step, in
                                 ///< [0, 1); 0: not limited
};

/// A decode step reads the whole model for any number of requests, so half as many instances with twice the requests
/// each use far less energy, as long as such steps meet the objectives. For each kind of instance, the best batch is
/// the one with the least energy per token beyond idle power, among those that fill a step up to the objective at one
/// of its clocks, at the mean context of the running requests. A request goes to an instance where it fits into the
/// best batch: of the cheapest kind, and among those to the fullest, so that instances the load does not need become
/// idle. If it fits nowhere, it goes to the least full, relative to its best batch. Ties: the lowest id.
///
/// A batch uses at most 70 % of the KV cache, because contexts grow. The longest permitted step is slo.itl (or tbt)
/// less the margin. First tokens wait for steps of the decode engine, so a step is also no longer than what would have
/// made late_handovers of the most recent first tokens exceed slo.ttft, in addition to those that would have at the
/// highest clock with the load spread evenly.
///
/// Without Beliefs::latency and power, or without an objective for gaps: the fewest requests. O(kinds x clocks x log
/// batch + candidates); allocates only when the fleet grows. Never declines.
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
  /// Best batch of one kind of instance, for one decision.
  struct Best {
    const InstanceSpec* spec = nullptr;
    std::int32_t batch = 0;    ///< requests; 0: no batch meets the limit
    double cost = 0.0;         ///< energy per token, in mW x s
    Span limit = Span::max();  ///< of a step's duration
    MegaHertz top;             ///< highest clock of F
    double per_s = 0.0;        ///< tokens per second of this batch
  };
  /// The longest steps with which the most recent first tokens of this kind of instance would have been in time.
  struct Borne {
    const InstanceSpec* spec = nullptr;
    RecentSpans steps;
  };
  /// What an instance ran when a request was last routed; views may be as old as that.
  struct Ran {
    InstanceId id;
    StepShape shape;
    MegaHertz clock;
  };
  /// Recent arrivals and finished answers of a pool.
  struct Traffic {
    std::vector<Instant> came = {};  ///< arrival times, a ring buffer
    std::size_t oldest = 0;
    double ended = 0.0;
    double tokens = 0.0;
  };
  struct Load {
    double per_s = 0.0;        ///< tokens per second that requests need
    std::int32_t even = 1;     ///< requests per instance if spread evenly
    std::int64_t context = 1;  ///< mean KV tokens of a request, now or predicted
  };
  [[nodiscard]] Best best(const InstanceView& view, const Load& load) const;
  [[nodiscard]] const Best& best_of(const InstanceView& view, const Load& load);
  /// Stores in `ran_` what each candidate runs.
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
