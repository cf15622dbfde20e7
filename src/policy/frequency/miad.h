#pragma once
// MIAD (FREESH, section IV-B): the clock rises by a factor when requests suffer and falls by a constant when they do
// not.
#include <cstdint>

#include "model/request.h"
#include "policy/frequency/frequency.h"
#include "policy/frequency/latency_limits.h"

namespace wattle::policy {

struct MiadOptions : LatencyLimitOptions {
  double factor = 2.0;       ///< M: congested, f = min(M f, f_max); > 1
  MegaHertz decrease{100};   ///< delta: otherwise f = max(f - delta, floor)
  MegaHertz floor{300};      ///< below the instance's lowest clock: that
  Span period = Span::s(1);  ///< between two decisions
  double quantile = 1.0;     ///< congested: more than 1 - quantile of a period's latencies are beyond; 1: any
};

/// By default a single latency of the period beyond its limit is congestion: the limits "define a violation", and the
/// clock rises "immediately" with one (appendices D.7 and B.2). A period without any latency goes on, unless there has
/// been work without any for longer than every limit.
///
/// Latencies come from the instance's own step reports, so that it works beside the GPU and without the gateway: the
/// gap between two steps that decode is every decoding request's token gap, and a prompt's first token comes when its
/// step ends. Where no steps are reported they are those of the streams (delivered()), each time in the mean of what
/// has come since the last. A first token's counts from when the engine had the prompt, as far as reports tell, not
/// from when it came to a gateway that then held it: no clock shortens that wait's past, and FREESH's figures at twice
/// the load (Table 2: mean E2E 110 to 371 s, TTFT 0.3 s, token gaps as at the normal load) leave it out. Starts at the
/// highest clock. Without work the clock goes on falling, a step a period, to the floor; lost telemetry counts as
/// congestion. Clocks are those the instance can lock: the lowest that is at least what a rise asks for, the highest
/// that is at most what a fall asks for. One decision is O(log clocks), a report O(1); nothing allocates.
///
/// A colocated instance's token gaps hold its prompts' steps, so that a limit on gaps keeps its clock up whatever the
/// other limits are. A prefill or decode instance has latencies of one kind, and nothing but their own limits keeps its
/// clock up; the paper has none for halves. They keep to the objectives of what they serve (the spec's until held_to()
/// says others) where those are stricter than the limits above: gaps to ITL, a period's mean gap to the mean that
/// requests are judged by, first tokens to TTFT. Besides,
/// - a prefill instance's step may take a quarter of a first token's limit (kStepsOfAFirstToken): who comes meanwhile
///   waits for it and for the next one, and there are no gaps to say so before they are late;
/// - where the decode instance sends first tokens, one that only its wait for that makes late counts at both halves.
class Miad final : public FrequencyPolicy {
 public:
  explicit Miad(const MiadOptions& options) : options_(options) {}
  ClockDecision choose(const InstanceView& view, Instant now) override;
  void delivered(const Delivered& news) override;
  void handed_over(Span age, Span wait) override;
  void held_to(const InstanceView& view, const Slo& slo) override;

 private:
  /// Latencies seen since the last decision.
  struct Seen {
    std::int64_t all = 0;
    std::int64_t beyond = 0;
    double sum_s = 0.0;
    void add(std::int64_t count, Span latency, Span limit) {
      all += count;
      beyond += latency > limit ? count : 0;
      sum_s += latency.seconds() * static_cast<double>(count);
    }
    [[nodiscard]] bool mean_above(Span limit) const {
      return all > 0 && sum_s > limit.seconds() * static_cast<double>(all);
    }
    [[nodiscard]] bool congested(double quantile) const {
      return static_cast<double>(beyond) > static_cast<double>(all) * (1.0 - quantile);
    }
  };

  void keep(const InstanceSpec& spec, const Slo& slo);
  void hear(const StepReport& step);
  /// How many have been seen of its own work: hand-overs say nothing of a half whose steps nobody reports.
  [[nodiscard]] std::int64_t own_latencies() const;
  [[nodiscard]] bool congested() const;
  [[nodiscard]] MegaHertz raised(const InstanceView& view) const;
  [[nodiscard]] MegaHertz lowered(const InstanceView& view) const;

  MiadOptions options_;
  const InstanceSpec* limited_ = nullptr;  ///< whose limits these are; null: not known yet
  LatencyLimits limits_;
  Span handed_over_ = Span::max();  ///< limit of first tokens after a hand-over, of prompts of any length
  Seen gaps_;
  Seen first_tokens_;
  Seen prompt_steps_;  ///< of a prefill instance: how long each prompt's step took
  StepReport last_;    ///< the newest step heard of
  bool heard_ = false;
  Instant since_;       ///< whose first token the next step brings, the engine has not had longer
  bool idled_ = false;  ///< when last asked
  Instant seen_;        ///< a latency, or no work
  MegaHertz clock_{0};  ///< 0: nothing decided yet
  const char* reason_ = "";
  Instant next_;  ///< decision
};

}  // namespace wattle::policy
