#pragma once
// What a second of a request's time is worth where prompts and decodes share steps. Ours: docs/decisions/0029.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/beliefs.h"
#include "model/instance.h"
#include "policy/frequency/recent_spans.h"

namespace wattle::policy {

/// A step with a long prompt outlasts slo.itl at any clock and makes as many gaps late as requests are running. What a
/// lower clock costs there is not that this or that step takes longer, it is that requests stay longer, and so more of
/// them are running when such a step comes. By Little's law it is the mean time of steps that counts, each weighted by
/// the requests that it holds up. Of all ways to one such mean that takes least energy which runs every step at the
/// clock of least (power - spared) x time + price x requests x time, at one price for all. Spared is the instance's
/// mean power, idle time included, but for the share of its time that grows with the load: in a longer step more
/// requests gather, and the next ones are fewer.
///
/// The price is the lowest with which the steps of the last one to two minutes would have made no more than
/// `late_tokens` of all gaps, and of all first tokens, late beyond those that are late at the highest clock, and of
/// answers' mean gaps: means over as many steps as an answer has tokens stand for these. Where none are late then,
/// steps run at their least energy, yet never so slowly that the instance could not carry its load.
class TimePrice {
 public:
  /// `clocks` ascending, at least one. `late_tokens` in (0, 1). `spec` has an objective of gaps or of their mean, and
  /// believes in a time and a power.
  TimePrice(std::span<const MegaHertz> clocks, double late_tokens, const InstanceSpec& spec);

  struct Choice {
    MegaHertz clock;
    /// Its gaps are late even at the highest clock, or it has prompts and only the mean of gaps counts.
    bool late = false;
  };
  /// The next step.
  struct Next {
    StepShape shape;
    std::int32_t waiting = 0;    ///< more requests at the instance
    bool full = false;           ///< it computes as many tokens as the engine lets a step compute
    Span prompts = Span::max();  ///< what its prompts leave it
    Span waited = Span();        ///< the oldest of its prompts has waited so long
  };
  /// For a step that begins at `now`. Until the next call one like it follows the other. No allocation.
  [[nodiscard]] Choice choose(const Next& next, Instant now);
  /// What these steps run at from `now` on, whatever choose() said; a clock that is none of them (an
  /// idle instance's) counts as the next higher.
  void runs_at(MegaHertz clock, Instant now);
  /// `late_tokens` in (0, 1), and at least so high a price, in [0, 1] of all there are; both from the next price on.
  void hold_to(double late_tokens, double least) {
    late_tokens_ = late_tokens;
    least_price_ = static_cast<std::size_t>(least * static_cast<double>(kPrices - 1));
  }
  /// Nothing runs from `now` on, or nobody knows what.
  void pause(Instant now);

 private:
  static constexpr std::size_t kPrices = 32;
  /// What steps took, and would have taken. Seconds of a step count once for each request at the instance.
  struct Work {
    Span lasted;  ///< by the clock on the wall
    double gaps = 0.0;
    double late = 0.0;
    double prompts = 0.0;
    double late_prompts = 0.0;
    double shared_s = 0.0;   ///< of steps of several requests what one alone would have taken
    double shared_ws = 0.0;  ///< and its energy, W s
    double busy_s = 0.0;
    double took = 0.0;
    double at_max = 0.0;               ///< had all run at the highest clock
    double load_at_max = 0.0;          ///< of it what grows with the load, in seconds of steps
    std::array<double, kPrices> at{};  ///< had all run at the clocks of a price
    // The longest full step beside which requests decoded, by its time at the highest clock; 0: there was none.
    double fullest_s = 0.0;
    StepShape fullest;
    std::int32_t fullest_requests = 0;
  };
  /// By clock, of one step.
  struct Costs {
    std::vector<double> seconds;
    std::vector<double> efforts;  ///< W s
    std::vector<double> costs;    ///< efforts less what is spared
  };
  using Choices = std::array<std::size_t, kPrices>;  ///< clock by price
  /// Gaps of late have been about as long as answers' mean may be.
  [[nodiscard]] bool behind() const;
  void weigh(const StepShape& shape, Costs& costs) const;
  void choose_by_price(const Costs& costs, std::int32_t requests, Choices& choices) const;
  /// Would steps be within the mean gap at this price even if all were as full as one can be, and so many times as many
  /// requests decoded?
  [[nodiscard]] bool full_within_mean(const StepShape& fullest, std::size_t price, double more) const;
  void note(Instant now);
  void note_answer(double steps, double seconds);
  void set_price(Instant now);

  std::vector<MegaHertz> clocks_;
  double late_tokens_;
  Span itl_;       ///< of each gap; max(): none
  Span mean_gap_;  ///< of an answer's mean
  Span ttft_;
  const LatencyModel* latency_;
  const PowerModel* power_;
  Costs lightest_;  ///< of a step of one request

  std::array<double, kPrices> watts_{};  ///< a request's, by price; ascending
  std::size_t price_ = kPrices - 1;
  std::size_t least_price_ = 0;
  double spared_w_ = 0.0;  ///< what a second more of steps spares
  Work recent_;
  Work older_;
  Instant recent_since_;
  Instant priced_at_;

  // A stretch of steps as long as an answer may be, so far, and by how much longer each of the newest ones could have
  // been, as a share of what it would have taken at the highest clock (1: a second).
  double answer_tokens_ = 32.0;
  double answer_steps_ = 0.0;
  double answer_s_ = 0.0;
  double since_token_s_ = 0.0;
  double gap_s_ = 0.0;  ///< mean of gaps, over about as many steps as an answer has tokens
  double more_ = 1.0;   ///< gaps are so much longer than at the highest clock
  RecentSpans borne_;
  RecentSpans first_borne_;  ///< likewise by how much longer the newest prompts could have waited

  // The steps that run now.
  bool running_ = false;
  Instant since_;
  std::int32_t requests_ = 0;
  std::int32_t decodes_ = 0;
  std::int32_t beside_ = 0;  ///< requests that decode, or wait while a step computes prompts alone
  bool late_ = false;
  std::size_t clock_ = 0;
  Costs step_;
  Choices choices_{};

  // Of the fullest step, for set_price().
  Costs full_;
  Choices full_choices_{};
};

}  // namespace wattle::policy
