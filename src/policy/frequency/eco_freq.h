#pragma once
// EcoFreq (VoltanaLLM, Algorithm 1): the lowest clock whose predicted step time meets the phase's latency budget.
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/frequency/clock_choice.h"
#include "policy/frequency/decode_load.h"
#include "policy/frequency/frequency.h"
#include "policy/frequency/newcomers.h"
#include "policy/frequency/prefill_load.h"
#include "policy/frequency/recent_spans.h"
#include "policy/frequency/time_price.h"

namespace wattle::policy {

struct EcoFreqOptions {
  std::vector<ClockSetting> clocks;  ///< F, ascending, not empty
  bool park_idle = false;            ///< while known idle: idle_clock, otherwise the lowest of F
  ClockSetting idle_clock = ClockSetting::lowest();
  double margin = 0.0;         ///< share of each objective kept in reserve, in [0, 1)
  Span dwell = Span::ms(200);  ///< shortest time between a raise and the next decrease
  Span overrun = Span::ms(5);  ///< a step this much over its prediction raises the clock (control::Throttle); 0: never
  /// Share of first tokens that may wait too long for a decode instance, in [0, 1); 0: hand-overs are ignored.
  double late_handovers = 0.0;
  /// With several tokens per step: share, in [0, 1], of those beyond the first that lengthen the step's budget.
  double step_yield = 0.0;
  /// Share of gaps and of first tokens that may be late beyond those late at max(F); 0: no trade-off (paper).
  double late_tokens = 0.0;
  std::vector<double> late_requests_of = {};  ///< late_requests of single classes
  double late_requests = 0.0;  ///< share of requests that may miss an objective before clocks rise; 0: no feedback
  bool newcomers = false;  ///< with late_tokens: steps leave time for prompts that arrive while they run; false: paper
  bool carries_load = false;  ///< prefill and decode instances keep to clocks that sustain their load; false: paper
  bool later_chunks = false;  ///< a prompt's budget is shared by all its chunks; false: each chunk gets all (paper)
  /// If no clock meets the budget: true: max(F), even if a lower clock is as fast (paper); false: that lower clock.
  bool raises_in_vain = true;
  bool raises_take_time = false;  ///< the time until a clock command applies is part of predictions; false: paper
  Span window;                    ///< shortest time between decisions; zero: decide at every iteration
};

/// Objectives are those of the instance's spec until held_to() replaces them. TTFT limits steps with prompts, ITL (else
/// TBT) limits steps with decodes; an objective that is absent limits nothing. If requests wait: max(F). Otherwise the
/// lowest clock of F whose predicted step time is within the step's budget, or max(F) if there is none. The budget of a
/// step with prompt tokens is ttft x (1 - margin) - the longest wait among its prompts; of a step with decodes itl x (1
/// - margin); of a colocated step with both the smaller of the two, because the step delays both.
///
/// Not defined by the paper, decided for safety: an instance known to be idle gets idle_clock at once (no step can
/// suffer, so dwell does not apply). Lost telemetry means that work may be in flight: max(F). Other decreases wait
/// until `dwell` after the last raise; raises never wait. If the predictor is absent, or predicts <= 0 or more than 10
/// minutes: max(F), counted in disbelieved(). The hold is exact: a driver that skips every step covered by a hold
/// gets the same clocks as one that asks at each step (if the LatencyModel is monotone in KV tokens, as it has to be).
///
/// late_handovers: first tokens of requests that move from a prefill to a decode instance. Such a request waits until
/// the decode engine's loop takes it in, sometimes for many iterations. From the newest waits (handed_over()) follows
/// how long a step may take at either instance so that at most this share of first tokens is late (or as many as
/// at max(F)). On the prefill instance the wait is subtracted from the budget, and a step takes at most a quarter of
/// the remaining TTFT, since prompts that arrive meanwhile wait for it. On the decode instance a step is limited to
/// what the recent hand-overs would have tolerated, assuming that waits grow in proportion to step times.
///
/// step_yield: a decode step that gives each request several tokens (speculative decoding) may take longer if even
/// max(F) clearly misses itl for the gap before them: its budget is itl x (1 + step_yield x (tokens per step - 1)),
/// with tokens per step from the newest reports, so that mean gaps stay within itl. If prompts are computed between its
/// steps, mean gaps alone do not show what those cost.
///
/// later_chunks: a step that computes one chunk of a prompt (chunked prefill) gets a share of the prompt's budget,
/// its time at max(F) over the time of all remaining chunks at max(F). If the step has other prompts as well, the
/// unfinished one is the newest and is assumed to have just arrived.
///
/// With either of them a decision holds until the batch changes or outgrows the budget for which it was made.
///
/// late_tokens: a colocated instance weighs energy (Beliefs::power) against lateness (TimePrice). No clock is below the
/// one of least cost at the present price of time; a step whose gaps are late even at max(F) is limited only by its
/// prompts' budget. Waiting requests raise the clock to max(F) only if their prompts would otherwise be late or the KV
/// cache has no room for them. A decision holds until the KV cache has grown by 1/32 or the budget is outgrown. A raise
/// made for the price alone starts no `dwell`.
///
/// newcomers (with late_tokens): a request that arrives while a step runs waits for its end, and then for a step with
/// its own prompt. Steps are short enough for such requests to meet TTFT, except for late_share() of them, and for
/// those that would be late with this step at max(F) (policy::Newcomers). While idle, the clock is the lowest of F at
/// which prompts like recent ones meet TTFT, unless park_idle. Not if requests have different TTFTs
/// (Slo::ttft_varies), because the strictest would then count for all.
///
/// carries_load: an instance runs at no clock that does not sustain its load: a decode instance's batch would outgrow
/// ITL (DecodeLoad), a prefill instance's queue TTFT (PrefillLoad). A decode instance's decision then holds until the
/// KV cache has grown by 1/32, or as above.
///
/// raises_take_time: a step begins at the clock of the one before, and a command given then applies only after
/// InstanceSpec::clock_delay (policy::raised_time). With late_tokens, clocks of steps without prompts are high enough
/// for steps with prompts to be raised in time (TimePrice), and raises start no `dwell`.
///
/// late_requests: feedback from finished requests (finished()). While more than this share miss an objective,
/// first late_tokens is lowered and then the price of time raised, up to max(F); while fewer do, both return: the
/// faster, the less chance explains it.
/// Predictions of gaps and first tokens do not say which requests they belong to.
///
/// window (an ablation of the papers): the first decision of a window stands until the window ends, even if the
/// instance becomes idle; only lost telemetry ends it early.
class EcoFreq final : public FrequencyPolicy {
 public:
  EcoFreq(const EcoFreqOptions& options, const InstanceSpec& spec);
  ClockDecision choose(const InstanceView& view, Instant now) override;

  /// max(F) at once and for `dwell`, whatever the predictor says, even within a window.
  ClockDecision overrun(const InstanceView& view, Instant now) override;
  void handed_over(Span age, Span wait) override;
  void finished(ClassId request_class, std::int64_t requests, std::int64_t late) override;
  /// Waits and the price of time were learnt under the old objectives: they are reset, unless only slo.tbt has changed.
  void held_to(const InstanceView& view, const Slo& slo) override;
  [[nodiscard]] std::int64_t disbelieved() const override { return disbelieved_; }

 private:
  /// Takes over the spec's objectives.
  void keep(const InstanceSpec& spec);
  /// The part of it that depends on the objective for mean gaps.
  void keep_gaps(const InstanceSpec& spec);
  /// The clock that the budget alone requires, and up to how many KV tokens it stays the same (-1: ask again).
  struct Wish {
    MegaHertz clock;
    const char* reason;
    std::int64_t kv_tokens_max;
    bool dwells = true;  ///< whether a raise to it starts the dwell
  };
  ClockDecision decide(const InstanceView& view, Instant now);
  [[nodiscard]] Wish wish(const InstanceView& view, Instant now);
  /// With a price of time. `within_both`: the choice by both budgets.
  [[nodiscard]] Wish priced(const InstanceView& view, Instant now, Span prompts, Span decodes,
                            const ClockChoice& within_both);
  /// With a price of time: the lowest clock at which the next step, followed by one with all waiting prompts, ends in
  /// time for the oldest request that may be waiting.
  [[nodiscard]] MegaHertz for_those_who_wait(const InstanceView& view, Instant now);
  /// The wish, raised to the lowest clock that carries the load.
  [[nodiscard]] Wish carrying(const InstanceView& view, Wish wish, Instant now) const;
  /// The longest step with which requests that arrive during it meet TTFT.
  [[nodiscard]] Span newcomers_budget(const InstanceView& view) const;
  /// Engines that compute prompts alone: gaps last from the decodes' last tokens, over steps of prompts, until the
  /// next.
  void follow_gaps(const InstanceView& view);
  /// Sets the price's strictness from finished requests.
  void hold_price();
  /// From `now` on steps run at the newest decision.
  void runs(Instant now);
  /// From `now` on no step is known to run.
  void unpriced(Instant now);
  /// The limit for a step of decodes alone, from ITL.
  [[nodiscard]] Span gap_budget(const InstanceView& view) const;
  /// The next step's limit from its prompts' TTFT, and from its decodes.
  [[nodiscard]] Span prompt_budget(const InstanceView& view) const;
  [[nodiscard]] Span decode_budget(const InstanceView& view) const;
  /// The predicted time of the next step at the highest clock.
  [[nodiscard]] Span fastest(const InstanceView& view) const;
  [[nodiscard]] Span within_chunks(const StepReport& step, Span allowed, const LatencyModel* latency) const;
  /// Remembers the predicted time of the step at the decided clock, if hand-overs wait for such steps.
  void note_step(const InstanceView& view);

  EcoFreqOptions options_;
  Slo slo_;
  ClockRule rule_;
  MegaHertz idle_clock_;
  double step_yield_;
  Span clock_delay_;  ///< 0: clocks are taken to change at once
  Span itl_lost_;     ///< a step that takes longer than this at max(F) cannot meet ITL
  double late_handovers_;
  bool prefills_;  ///< a prefill instance
  Span step_;      ///< see note_step(); zero: unknown
  std::optional<TimePrice> price_;
  std::optional<DecodeLoad> load_;
  std::optional<PrefillLoad> prefill_load_;
  std::optional<Newcomers> newcomers_;
  double stricter_ = 0.0;                     ///< see kStages
  double recent_may_ = 0.0;                   ///< of recent requests, those that may be late
  double recent_more_ = 0.0;                  ///< and how many more were
  Instant waiting_since_ = Instant::never();  ///< no waiting request arrived earlier
  Wish held_{};                               ///< the newest priced wish, valid for held_requests_
  std::int32_t held_requests_ = 0;            ///< number of decodes, without prompts, that it is for; 0: invalid
  StepShape paused_;                          ///< the newest step of decodes, see follow_gaps()
  Instant paused_since_ = Instant::never();   ///< when it ended, if a step of prompts runs now
  Span before_;                               ///< of the next step's gaps, the time that has passed
  Span after_;                                ///< after a step of prompts, the least time of the decodes' next step
  RecentSpans handovers_;  ///< waits; on a decode instance the longest step that each hand-over would have tolerated
  MegaHertz current_{0};   ///< the newest decision; 0 before the first
  Instant lower_from_;     ///< earliest time of the next decrease
  Instant window_end_;     ///< with a window: the clock is kept until then
  std::int64_t disbelieved_ = 0;
};

}  // namespace wattle::policy
