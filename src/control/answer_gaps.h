#pragma once
// Limits on token gaps that follow from objectives for whole answers. Ours: docs/decisions/0055.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/instance.h"
#include "model/outcome.h"
#include "policy/frequency/recent_spans.h"

namespace wattle::control {

struct AnswerOptions {
  /// Share of answers that may tolerate less than the limit (AnswerGaps), in [0, 1); 0: slo.e2e limits nothing.
  double late = 0.0;
  double first_token = 0.15;  ///< share of slo.e2e that a first token may take, in (0, 1)

  /// The objectives that instances aim at: an objective for whole answers also limits their first token and their mean
  /// gap, unless stricter ones are stated.
  [[nodiscard]] Slo aims(Slo stated) const;
};

/// The mean gap with which answers meet slo.e2e. An answer of n tokens whose first one came after t tolerates a mean
/// gap of (slo.e2e - t) / (n - 1). The limit is the longest such that of the newest 512 answers at most the share
/// AnswerOptions::late tolerates less, in addition to those that tolerate less than what the fleet takes at its highest
/// clocks. Short answers end first, so the limit is as good as zero until 1 / AnswerOptions::late requests have arrived
/// and all of them have ended, or until slo.e2e has passed since the first arrival.
class AnswerGaps {
 public:
  static constexpr Span kNothingKnown = Span::us(1);  ///< the limit while no answer has ended

  explicit AnswerGaps(double late) : late_(late) {}

  /// A request with an objective for its answer.
  void expect(Instant arrival);
  /// A finished request with the objective `e2e`. `step`: predicted time of a step of its instance's decodes as they
  /// are now; zero: not known.
  void add(const Outcome& outcome, Span e2e, Span step);
  /// `fastest`: predicted time of a step of decodes at the highest clock, with requests spread evenly.
  [[nodiscard]] Span limit(Span fastest, Instant now) const;

 private:
  static constexpr std::size_t kAnswers = 512;
  [[nodiscard]] bool enough() const { return first_ * late_ >= 1.0; }
  double late_;
  policy::RecentSpans tolerated_{kAnswers};
  Instant from_ = Instant::never();  ///< a limit is known from then on, or once first_ have ended
  // The first requests: how many have arrived, how many of these have not finished, when the newest of them arrived.
  std::int32_t first_ = 0;
  std::int32_t unfinished_ = 0;
  Instant newest_first_;
  // Of the newest answers: mean gaps, and steps of decodes alone. Gaps also contain steps with prompts.
  double gaps_s_ = 0.0;
  double steps_s_ = 0.0;
};

/// Predicted time of an instance's step of decodes at its highest clock, if the requests of all these instances were
/// spread evenly and had been decoded at that clock so far; the mean over the instances. Zero: none has a prediction.
[[nodiscard]] Span fastest_step(std::span<const InstanceView> instances);
/// The same for a step of this instance's decodes as they are, at its clock.
[[nodiscard]] Span present_step(const InstanceView& view);

}  // namespace wattle::control
