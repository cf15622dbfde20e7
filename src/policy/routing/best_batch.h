#pragma once
// Ours: fills decode and colocated instances one after the other, each up to the batch of least energy per token.
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "policy/frequency/clock_choice.h"
#include "policy/frequency/recent_spans.h"
#include "policy/routing/least_prompts.h"
#include "policy/routing/routing.h"

namespace wattle::policy {

struct BestBatchOptions {
  double overload_margin = 0.1;  ///< share of slo.itl and slo.ttft kept in reserve; EcoFreq's margin if larger
  double late_handovers = 0.01;  ///< share of first tokens that may be late because they waited for a decode step, in
                                 ///< [0, 1); 0: not limited
  double late_gaps = 0.005;  ///< colocated instances: share of gaps that may be late because of the prompts computed
                             ///< between them, beyond those late with the load spread evenly, in [0, 1)
};

/// A decode step reads the whole model for any number of requests, so half as many instances with twice the requests
/// each use far less energy, as long as such steps meet the objectives. For each kind of instance, the best batch is
/// the one with the least energy per token beyond idle power, among those that fill a step up to the objective at one
/// of its clocks, at the mean context of the running requests. A request goes to an instance where it fits into the
/// best batch: of the cheapest kind, and among those to the fullest, so that instances the load does not need become
/// idle. If it fits nowhere, it goes to the least full, relative to its best batch. Ties: the lowest id.
///
/// A batch has at most as many requests as the engine runs at once, and uses at most 70 % of the KV cache, because
/// contexts grow. The longest permitted step is slo.itl (slo.tbt if shorter) less the margin. First tokens wait for
/// steps of the decode engine, so a step is also no longer than what would have made late_handovers of the most recent
/// first tokens exceed slo.ttft, in addition to those that would have at the highest clock with the load spread evenly.
///
/// An instance whose steps take longer than believed (InstanceView::pace) keeps as much in reserve as that takes, so
/// that requests fit elsewhere first. What fits nowhere is shared as if all were as fast as their kind: giving more of
/// it to the others would make it late there, too.
///
/// Colocated instances compute prompts between decodes, so there a request fits only if, at the highest clock,
/// - steps with its prompt, those that wait there and the running decodes are within the objective for gaps,
/// - these steps (InstanceSpec::max_step_tokens) and the present one take at most half of slo.ttft, and
/// - steps with one of the recent prompts are late so seldom that more running requests make at most late_gaps of gaps
///   late: a late step makes one gap of each running request late, once for each prompt that comes to the instance.
/// Where prompts are computed alone, all steps of a prompt and one of decodes make a gap.
/// What fits nowhere is spread (LeastPrompts), as are prompts over prefill instances, and everything whose objective
/// for whole answers limits no gaps (InstanceView::mean_gap).
///
/// Without Beliefs::latency and power, or without an objective for gaps: the fewest requests, or LeastPrompts. O(kinds
/// x clocks x log batch + candidates x log prompts, or x prompts where the longest take several steps); allocates only
/// when the fleet grows. Never declines.
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
  /// Best batch of one kind of instance.
  struct Best {
    const InstanceSpec* spec = nullptr;
    double margin = 0.0;                                    ///< share of objectives kept in reserve
    Span gap = Span::max();                                 ///< objective for mean gaps
    std::int32_t batch = 0;                                 ///< requests; 0: no batch meets the limit
    double cost = std::numeric_limits<double>::infinity();  ///< energy per token, in mW x s
    Span limit = Span::max();                               ///< of a step's duration
    MegaHertz top;                                          ///< highest clock of F
    double per_s = 0.0;                                     ///< tokens per second of this batch
  };
  struct BestsAt {
    std::int64_t context = 0;  ///< Load::context
    std::vector<Best> bests = {};
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
    std::vector<Instant> came = {};          ///< arrival times, a ring buffer
    std::vector<std::int32_t> prompts = {};  ///< their lengths, in the same order
    std::size_t oldest = 0;
    std::vector<std::int32_t> by_length = {};  ///< `prompts`, ascending
    double ended = 0.0;
    double tokens = 0.0;

    void add(std::int32_t prompt_tokens, Instant now);
  };
  struct Load {
    double per_s = 0.0;                          ///< tokens per second that requests need
    std::int32_t even = 1;                       ///< requests per instance if spread evenly
    std::int64_t context = 1;                    ///< mean KV tokens of a request, now or predicted, rounded up
    double answer = 1.0;                         ///< mean tokens of an answer
    std::span<const std::int32_t> prompts = {};  ///< recent lengths, ascending
  };
  /// An instance whose batch has room, by its place among the candidates.
  struct Offer {
    double cost = 0.0;   ///< Best::cost
    double share = 0.0;  ///< of its best batch that would be full
    std::size_t candidate = 0;
  };
  /// Whether its steps stay within their limits with this request, too.
  [[nodiscard]] bool takes(const InstanceView& view, const Request& request, const Load& load, const Best& best) const;
  /// What a colocated instance's request must meet besides the batch: see above.
  [[nodiscard]] bool takes_prompt(const InstanceView& view, const Request& request, const Load& load,
                                  const Best& best) const;
  [[nodiscard]] Best best(const InstanceView& view, const Load& load, double margin) const;
  /// Among those at the present context.
  [[nodiscard]] const Best& best_of(const InstanceView& view, const Load& load, double margin);
  /// Finds those at this context; forgets all unless they are for this decision, too.
  void choose_bests(const Load& load, Instant now);
  /// Stores in `ran_` what each candidate runs.
  [[nodiscard]] Load look_at(const Request& request, std::span<const InstanceView* const> candidates, Instant now);
  [[nodiscard]] Traffic& traffic_of(const Request& request);

  BestBatchOptions options_;
  ClocksOfInstances clocks_;
  double margin_;
  std::vector<Borne> borne_;
  std::vector<Traffic> traffic_;  ///< by pool
  std::vector<Ran> ran_;          ///< by id
  std::vector<Offer> offers_;     ///< scratch
  std::vector<BestsAt> bests_;
  std::size_t present_ = 0;  ///< index of those at the present context
  Instant bests_since_;
  LeastPrompts spread_;
};

}  // namespace wattle::policy
