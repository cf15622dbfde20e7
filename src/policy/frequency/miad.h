#pragma once
// MIAD (FREESH, section IV-B): multiplicative increase of the clock on congestion, additive decrease otherwise.
#include <cstdint>

#include "model/request.h"
#include "policy/frequency/frequency.h"
#include "policy/frequency/latency_limits.h"

namespace wattle::policy {

struct MiadOptions : LatencyLimitOptions {
  double factor = 2.0;       ///< M: on congestion f = min(M f, f_max); > 1
  MegaHertz decrease{100};   ///< delta: without congestion f = max(f - delta, floor)
  MegaHertz floor{300};      ///< at least the instance's lowest clock
  Span period = Span::s(1);  ///< between two decisions
  double quantile = 1.0;     ///< congested if more than 1 - this of a period's latencies exceed their limits; 1: any
};

/// By default a single latency above its limit within a period is congestion: the limits "define a violation", and the
/// clock rises "immediately" with one (appendices D.7 and B.2). A period without any latency is extended, unless there
/// has been work without any for longer than every limit.
///
/// Latencies come from the instance's own step reports, so that MIAD runs next to the GPU, without the gateway: the
/// time between two steps with decodes is the token gap of every decoding request, and a prompt's first token comes
/// when its step ends. Without step reports, latencies come from the streams (delivered()), as means since the last
/// call. TTFT counts from when the engine received the prompt, as far as reports tell, not from its arrival at a
/// gateway that then held it: no clock can shorten that wait afterwards, and FREESH's figures at twice the load leave
/// it out as well (Table 2: mean E2E 110 to 371 s, TTFT 0.3 s, token gaps as at the normal load).
///
/// MIAD starts at the highest clock. Without work the clock keeps falling by one decrease per period, down to the
/// floor; lost telemetry counts as congestion. Clocks are rounded to those that can be locked: upwards after an
/// increase, downwards after a decrease. A decision is O(log clocks), a report O(1); nothing is allocated.
///
/// On a colocated instance prompt steps are part of the token gaps, so a limit on gaps keeps the clock high whatever
/// the other limits are. A prefill or decode instance has only one kind of latency and needs its own limits; the paper
/// does not cover this. There the objectives in force (the spec's until held_to()) also apply where they are stricter
/// than the limits above: ITL for gaps, the objective for mean gaps for a period's mean gap, TTFT for first tokens. In
/// addition,
/// - a step of a prefill instance may take a quarter of the TTFT limit (kStepsOfAFirstToken): a prompt that arrives
///   during a step waits for its end and for the next one, and no gaps show this before it is late;
/// - where the decode instance sends first tokens, a first token that is late only because it waited there counts at
///   both instances.
class Miad final : public FrequencyPolicy {
 public:
  explicit Miad(const MiadOptions& options) : options_(options) {}
  ClockDecision choose(const InstanceView& view, Instant now) override;
  void delivered(const Delivered& news) override;
  void handed_over(Span age, Span wait) override;
  void held_to(const InstanceView& view, const Slo& slo) override;

 private:
  /// Latencies since the last decision.
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
  /// Number of latencies of the instance's own work: hand-overs say nothing about an instance whose steps are not
  /// reported.
  [[nodiscard]] std::int64_t own_latencies() const;
  [[nodiscard]] bool congested() const;
  [[nodiscard]] MegaHertz raised(const InstanceView& view) const;
  [[nodiscard]] MegaHertz lowered(const InstanceView& view) const;

  MiadOptions options_;
  const InstanceSpec* limited_ = nullptr;  ///< instance to which limits_ apply; null: none yet
  LatencyLimits limits_;
  Span handed_over_ = Span::max();  ///< TTFT limit after a hand-over, for prompts of any length
  Seen gaps_;
  Seen first_tokens_;
  Seen prompt_steps_;  ///< prefill instances: duration of each prompt's step
  StepReport last_;    ///< newest reported step
  bool heard_ = false;
  Instant since_;       ///< earliest time at which the engine can have received the prompts of the next step
  bool idled_ = false;  ///< at the last call
  Instant seen_;        ///< time of the last latency, or of the last call without work
  MegaHertz clock_{0};  ///< 0: no decision yet
  const char* reason_ = "";
  Instant next_;  ///< decision
};

}  // namespace wattle::policy
