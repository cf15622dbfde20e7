#pragma once
// EcoFreq (VoltanaLLM, Algorithm 1): the lowest clock whose predicted step time meets the phase's latency budget.
#include <cstdint>
#include <optional>
#include <vector>

#include "policy/frequency/clock_choice.h"
#include "policy/frequency/decode_load.h"
#include "policy/frequency/frequency.h"
#include "policy/frequency/newcomers.h"
#include "policy/frequency/recent_spans.h"
#include "policy/frequency/time_price.h"

namespace wattle::policy {

struct EcoFreqOptions {
  std::vector<ClockSetting> clocks;  ///< F, ascending, not empty
  bool park_idle = false;            ///< while known idle: idle_clock, otherwise the lowest of F
  ClockSetting idle_clock = ClockSetting::lowest();
  double margin = 0.0;          ///< share of each objective kept in reserve, in [0, 1)
  Span dwell = Span::ms(200);   ///< shortest time between a raise and the next decrease
  Span overrun = Span::ms(5);   ///< a step this much over its prediction raises the clock (control::Throttle); 0: never
  double late_handovers = 0.0;  ///< share of first tokens that may wait too long for decode, in [0, 1); 0: any
  double step_yield =
      0.0;  ///< share of the tokens beyond one that a step gives a request that lengthen its budget, in [0, 1]
  double late_tokens = 0.0;  ///< share of gaps, and of first tokens, late that at max(F) would not be; 0: not weighed
  std::vector<double> late_requests_of = {};  ///< instead, of a class; of others late_requests
  double late_requests = 0.0;  ///< share of requests that may be late before late_tokens is lowered; 0: not heard of
  bool newcomers =
      false;  ///< late_tokens: a step leaves time for the first tokens of who comes while it runs; false: not
  bool carries_load = false;  ///< a decode instance keeps to clocks that carry its load; false: paper
  bool later_chunks = false;  ///< a prompt's budget is for what later steps compute of it, too; false: paper
  /// Where no clock meets the budget: max(F), though a lower one be as fast, as where an engine's host decides (paper).
  bool raises_in_vain = true;
  Span window;  ///< decide at most this often; zero: at every iteration
};

/// The instance's objectives count, those of its spec until held_to() says others: ttft bounds prefills, itl (else tbt)
/// decodes; an absent one bounds nothing. Any waiting request: max(F). Otherwise the lowest clock of F whose predicted
/// step time is within the budget, max(F) when none is. Budget of a step with prompt tokens: ttft x (1 - margin) -
/// longest wait among its prompts; of a step with decodes: itl x (1 - margin); of a colocated step with both: the
/// smaller, as the step delays both.
///
/// What the paper leaves open, decided for safety: known idle goes to idle_clock at once (no step can suffer, so dwell
/// does not apply); lost telemetry means work in flight and goes to max(F); other decreases wait until `dwell` after
/// the last raise, raises never wait; a predictor that is absent, or that answers <= 0 or more than 10 minutes, is not
/// believed: max(F), counted. The hold is exact: a driver that skips every step it covers gets the sequence of clocks
/// it would get by asking at each (given a LatencyModel that keeps its contract of being monotone in KV tokens).
///
/// With late_handovers the first tokens of requests that move from a prefill to a decode instance count, too. They wait
/// for passes of the decode engine's loop, some for many. What the newest of them waited (handed_over()) says how long
/// a step may take, at either instance, so that no more than this share would have been late, or no more than at
/// max(F): on the prefill instance what the others waited is taken from the budget, and a step is no longer than a
/// quarter of what that leaves of ttft, for prompts that come meanwhile; on the decode instance a step is within what
/// the others would have borne, had each wait been longer or shorter in proportion to it.
///
/// With step_yield a step of a decode instance that gives each request several tokens (speculative decoding) may take
/// longer where even max(F) clearly misses itl with the gap before them: the budget is then itl x (1 + step_yield x
/// (tokens per step - 1)), by the mean of the newest reports, so that mean gaps keep to itl. Where prompts are computed
/// between its steps, mean gaps say too little of these.
///
/// With later_chunks a step that computes a part of a prompt (chunked prefill) gets the share of its budget that it is
/// of all that is left of it, by their times at max(F). Where the step has other prompts, too, the unfinished one is
/// the newest and is taken to have just come.
///
/// With either a decision stands until the batch changes, or outgrows the budget that it was made with.
///
/// With late_tokens a colocated instance weighs energy (Beliefs::power) against what is late (TimePrice): no clock is
/// below the one of least cost at the price of time, and a step whose gaps are late even at max(F) is held to the
/// budget of its prompts alone. Waiting requests ask for max(F) only where their prompts would else be late or the KV
/// cache has no room for them. A decision stands until the KV cache has grown by 1/32, or the budget is outgrown;
/// `dwell` follows no raise that the price alone asks for.
///
/// With newcomers, beside late_tokens, who comes while a step runs gets a first token in time: it waits for that step
/// and then has one with its prompt. No step is longer than ttft leaves beside all but late_tokens of the newest such
/// steps at max(F), nor beside those that would be late were this one at max(F). While idle the clock is the lowest of
/// F at which such a step is in time, unless park_idle.
///
/// With carries_load a decode instance runs at no clock that its load would outgrow (DecodeLoad). A decision then
/// stands until the KV cache has grown by 1/32, or as above.
///
/// With late_requests the requests that have ended here count as well (finished()): while more of them than this share
/// missed an objective, late_tokens is lowered and then the price raised, up to max(F); while fewer did, both go back.
/// What is predicted of gaps and first tokens does not tell which requests they are of.
///
/// With a window (an ablation of the papers, which it loses) the first decision of a window stands until the window
/// ends, whatever comes, idleness included; only lost telemetry breaks it.
class EcoFreq final : public FrequencyPolicy {
 public:
  EcoFreq(const EcoFreqOptions& options, const InstanceSpec& spec);
  ClockDecision choose(const InstanceView& view, Instant now) override;

  /// max(F) at once, and for `dwell`, whatever the predictor says; within a window too.
  ClockDecision overrun(const InstanceView& view, Instant now) override;
  void handed_over(Span age, Span wait) override;
  void finished(ClassId request_class, std::int64_t requests, std::int64_t late) override;
  /// What was learnt under other objectives (of waits, and the price of time) is learnt again.
  void held_to(const InstanceView& view, const Slo& slo) override;
  [[nodiscard]] std::int64_t disbelieved() const override { return disbelieved_; }

 private:
  /// Its objectives are the spec's.
  void keep(const InstanceSpec& spec);
  /// What the budget alone asks for, and up to which KV tokens it asks for the same (-1: ask again).
  struct Wish {
    MegaHertz clock;
    const char* reason;
    std::int64_t kv_tokens_max;
    bool dwells = true;  ///< a raise to it is followed by the dwell
  };
  ClockDecision decide(const InstanceView& view, Instant now);
  [[nodiscard]] Wish wish(const InstanceView& view, Instant now);
  /// Where gaps have a price. `within_both`: the choice by both budgets.
  [[nodiscard]] Wish priced(const InstanceView& view, Instant now, Span prompts, Span decodes,
                            const ClockChoice& within_both);
  /// Where gaps have a price: the lowest clock at which the next step, and one with all that waits, end in time for the
  /// oldest that may be waiting.
  [[nodiscard]] MegaHertz for_those_who_wait(const InstanceView& view, Instant now);
  /// No clock lower than carries the load.
  [[nodiscard]] Wish carrying(const InstanceView& view, Wish wish) const;
  /// What a step may take so that who comes meanwhile gets a first token in time.
  [[nodiscard]] Span newcomers_budget(const InstanceView& view) const;
  /// As strict as what was late asks for.
  void hold_price();
  /// Steps run at the newest decision from `now` on.
  void runs(Instant now);
  /// No step runs that has a price.
  void unpriced(Instant now);
  /// What gaps allow a step of decodes.
  [[nodiscard]] Span gap_budget(const InstanceView& view) const;
  /// What its prompts allow the next step, and what its decodes do.
  [[nodiscard]] Span prompt_budget(const InstanceView& view) const;
  [[nodiscard]] Span decode_budget(const InstanceView& view) const;
  /// The predicted time of the next step at the highest clock.
  [[nodiscard]] Span fastest(const InstanceView& view) const;
  [[nodiscard]] Span within_chunks(const StepReport& step, Span allowed, const LatencyModel* latency) const;
  /// The predicted time of the step decided upon, where first tokens wait for such steps.
  void note_step(const InstanceView& view);

  EcoFreqOptions options_;
  ClockRule rule_;
  MegaHertz idle_clock_;
  double step_yield_;
  Span itl_lost_;  ///< a step that takes longer than this at max(F) cannot keep its gap
  double late_handovers_;
  bool prefills_;  ///< prompts alone
  Span step_;      ///< see note_step(); zero: not known
  std::optional<TimePrice> price_;
  std::optional<DecodeLoad> load_;
  std::optional<Newcomers> newcomers_;
  double stricter_ = 0.0;                     ///< see kStages
  Instant waiting_since_ = Instant::never();  ///< nobody who waits has come earlier
  Wish held_{};                               ///< the newest priced wish, as long as it stands
  std::int32_t held_requests_ = 0;            ///< for steps of so many decodes alone; 0: for none
  RecentSpans handovers_;  ///< waits; of a decode instance the longest step that each would have borne
  MegaHertz current_{0};   ///< the newest decision; 0 before the first
  Instant lower_from_;     ///< decreases are allowed from here on
  Instant window_end_;     ///< with a window: the clock stands until here
  std::int64_t disbelieved_ = 0;
};

}  // namespace wattle::policy
