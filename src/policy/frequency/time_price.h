#pragma once
// The price of a request's time on instances where prompts and decodes share steps. Ours: docs/decisions/0029.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/beliefs.h"
#include "model/instance.h"
#include "policy/frequency/recent_spans.h"

namespace wattle::policy {

/// The share of first tokens or mean gaps that may be late. `of_answers`: their objective follows from one for whole
/// answers, of which few need all of both: more may be late.
[[nodiscard]] double late_share(double late_tokens, bool of_answers);

/// A step with a long prompt exceeds slo.itl at any clock and makes one gap late for each running request. A lower
/// clock costs little in that step itself; but requests stay longer, so more of them are running when such a step
/// comes. By Little's law the quantity that counts is the mean step time, each step weighted by the requests that wait
/// for it. For a given weighted mean, energy is least if every step runs at the clock of least (power - spared) x time
/// + price x requests x time, with one price for all steps. Spared is the instance's mean power, idle time included,
/// without the part of its time that grows with the load: a longer step gathers more requests, so fewer steps follow.
///
/// The price is the lowest with which the steps of the last one to two minutes would have made at most a share of
/// `late_tokens` of gaps, of first tokens and of answers' mean gaps late, in addition to those late at the highest
/// clock (mean gaps are approximated by means over as many steps as an answer has tokens; late_share() of those whose
/// objective follows from one for whole answers). If none would be late, steps run at their least energy, but never so
/// slowly that the instance could not sustain its load.
///
/// A step with a prompt that has to run faster than the one before begins at that one's clock, and its gaps are late if
/// it cannot be raised in time. All steps run at least at the lowest clock from which that would have made no more than
/// the permitted share of gaps late; the price gets the rest of the share (docs/decisions/0050).
class TimePrice {
 public:
  /// `clocks` ascending, at least one. `late_tokens` in (0, 1). `spec` has an objective for gaps or their mean, and
  /// beliefs of latency and power. `clock_delay`: from a command until the clock changes; zero: at once.
  TimePrice(std::span<const MegaHertz> clocks, double late_tokens, const InstanceSpec& spec, Span clock_delay = {});

  struct Choice {
    MegaHertz clock;
    /// Its gaps are late even at the highest clock, or it has prompts and only mean gaps have an objective.
    bool late = false;
  };
  /// The next step.
  struct Next {
    StepShape shape;
    std::int32_t waiting = 0;    ///< requests at the instance that are not in the step
    bool full = false;           ///< it computes as many tokens as the engine allows per step
    Span prompts = Span::max();  ///< its limit from its prompts' TTFT
    Span waited = Span();        ///< wait of its oldest prompt so far
    Span before = Span();        ///< of its gaps: the time of steps with prompts alone since the last tokens
    Span after = Span();         ///< of its gaps, if it has prompts alone: the least time of the step that gives tokens
  };
  /// For a step that begins at `now`; steps like it follow until the next call. Does not allocate.
  [[nodiscard]] Choice choose(const Next& next, Instant now);
  /// The clock at which these steps run from `now` on, whatever choose() returned. A clock that is not among `clocks`
  /// (as while idle) counts as the next higher one.
  void runs_at(MegaHertz clock, Instant now);
  /// Sets `late_tokens`, in (0, 1), and the least price, in [0, 1] of the range of prices; both apply from the next
  /// price on.
  void hold_to(double late_tokens, double least) {
    late_tokens_ = late_tokens;
    least_price_ = static_cast<std::size_t>(least * static_cast<double>(kPrices - 1));
  }
  /// Replaces the objective for mean gaps; these have one.
  void hold_mean_gap_to(const Slo& slo);
  /// From `now` on no step runs, or it is not known which.
  void pause(Instant now);

 private:
  static constexpr std::size_t kPrices = 512;
  /// Time that steps took and would have taken at other clocks. Each step's seconds count once per request at the
  /// instance.
  struct Work {
    Span lasted;  ///< wall-clock time
    double gaps = 0.0;
    double late = 0.0;
    double prompts = 0.0;
    double late_prompts = 0.0;
    double shared_s = 0.0;   ///< steps of several requests: the part that does not grow with them (fixed_part())
    double shared_ws = 0.0;  ///< its energy, W s
    double busy_s = 0.0;
    double took = 0.0;
    double at_max = 0.0;       ///< at the highest clock
    double load_at_max = 0.0;  ///< its part that grows with the load, in seconds of steps
    /// At the clock of the first price; then each price's difference to the one before.
    std::array<double, kPrices> at{};
    std::vector<double> raised_late;  ///< by floor_: gaps late even if raised to the highest clock
    // The longest full step with decodes, by its time at the highest clock; 0: there was none.
    double fullest_s = 0.0;
    StepShape fullest;
    std::int32_t fullest_requests = 0;
  };
  /// By clock, of one step.
  struct Costs {
    std::vector<double> seconds;
    std::vector<double> efforts;  ///< W s
    std::vector<double> costs;    ///< efforts minus spared energy
  };
  /// A step with about half the work of another.
  struct Halved {
    StepShape shape;
    double halves;  ///< the whole's work divided by what it has more than this
  };
  struct Part {
    double seconds;
    double effort;  ///< W s
  };
  /// Clocks by price, ascending: each from this price on.
  class Choices {
   public:
    explicit Choices(std::size_t clocks) { corners_.reserve(clocks); }
    struct Corner {
      std::size_t price = 0;
      std::size_t clock = 0;
    };
    void clear() { corners_.clear(); }
    void add(const Corner& corner) { corners_.push_back(corner); }
    [[nodiscard]] std::span<const Corner> corners() const { return corners_; }
    [[nodiscard]] std::size_t at(std::size_t price) const;

   private:
    std::vector<Corner> corners_;  // the first at price 0
  };
  /// Whether recent gaps have been nearly as long as the objective for mean gaps allows.
  [[nodiscard]] bool behind() const;
  void weigh(const StepShape& shape, Costs& costs) const;
  /// W s of a step of this shape that takes so long.
  [[nodiscard]] double effort(const StepShape& shape, std::size_t clock, double seconds) const;
  [[nodiscard]] double cost(const Costs& of, std::size_t clock) const {
    return of.efforts[clock] - spared_w_ * of.seconds[clock];
  }
  [[nodiscard]] static Halved half_of(const StepShape& shape);
  /// The part of the present step, at this clock, that does not grow with its requests and prompts: with more of them
  /// there would not be more of it. For mixtures of experts it is most of a step, once each expert has tokens.
  [[nodiscard]] Part fixed_part(std::size_t clock) const;
  void choose_by_price(const Costs& costs, std::int32_t requests, Choices& choices) const;
  /// Whether steps at this price would meet the objective for mean gaps even if all were as full as the fullest, with
  /// `more` times as many decodes.
  [[nodiscard]] bool full_within_mean(const StepShape& fullest, std::size_t price, double more) const;
  void note(Instant now);
  /// Counts the gaps of the step that begins which no raise from the clocks of the step before makes on time.
  void note_raise();
  /// Adds to `recent_.at` the steps that have passed since `since_`, with this weight.
  void note_prices(double weight);
  /// Whether gaps with steps like the newest one meet the objective for their mean at this price, or would not at any.
  [[nodiscard]] bool newest_within_mean(std::size_t price) const;
  void note_answer(double steps, double seconds, double at_max_s);
  void set_price(Instant now);
  /// Sets the lowest clock; returns the share of late gaps that it leaves to the price.
  [[nodiscard]] double set_floor(double gaps);

  std::vector<MegaHertz> clocks_;
  double late_tokens_;
  Span itl_;              ///< of each gap; max(): none
  Span mean_gap_;         ///< of an answer's mean
  bool mean_of_answers_;  ///< mean_gap_ follows from an objective for whole answers
  Span ttft_;
  bool first_of_answers_;  ///< the same for ttft_
  Span clock_delay_;
  const LatencyModel* latency_;
  const PowerModel* power_;

  std::array<double, kPrices> watts_{};  ///< a request's, by price; ascending
  std::array<double, kPrices> took_{};   ///< by price: of set_price(), what Work::took would have been
  std::size_t price_ = kPrices - 1;
  std::size_t least_price_ = 0;
  double spared_w_ = 0.0;  ///< power saved elsewhere by each additional second of steps
  Work recent_;
  Work older_;
  Instant recent_since_;
  Instant priced_at_;

  // The present stretch of about as many steps as an answer has; and of the newest stretches by what factor each could
  // have been longer than at the highest clock and still met the mean gap (stored as seconds: 1 s is a factor of 1).
  double answer_tokens_ = 32.0;
  double answer_steps_ = 0.0;
  double answer_at_max_s_ = 0.0;  ///< of its steps as they are, at the highest clock
  double since_token_s_ = 0.0;
  double token_at_max_s_ = 0.0;  ///< since_token_s_ at the highest clock
  double gap_s_ = 0.0;           ///< mean gap over about as many steps as an answer has tokens
  double gap_at_max_s_ = 0.0;    ///< the same of these steps at the highest clock
  double more_ = 1.0;            ///< factor by which gaps are longer than at the highest clock
  double grown_ = 1.0;           ///< the part of it that comes of more requests
  RecentSpans borne_;
  RecentSpans first_borne_;  ///< the same for the waits of the newest prompts

  // The steps that run now.
  bool running_ = false;
  Instant since_;
  std::int32_t requests_ = 0;
  std::int32_t decodes_ = 0;
  std::int32_t beside_ = 0;  ///< decoding requests, including those paused while a step computes prompts alone
  Span within_;              ///< of the step's gaps: what itl_ leaves for it
  bool late_ = false;        ///< they are late at any clock, and not counted yet
  bool counted_ = false;     ///< a step with prompts alone has made the present gaps late
  std::size_t clock_ = 0;
  Costs step_;
  Halved halved_{};
  Costs lightest_;  ///< of a step of one request
  Choices choices_;
  std::size_t unraised_ = 0;  ///< the lowest clock at the price within itl_, without floor_; else the highest
  std::size_t floor_ = 0;     ///< the lowest clock for any step

  // Of the fullest step, for set_price().
  Costs full_;
  Choices full_choices_;
};

}  // namespace wattle::policy
