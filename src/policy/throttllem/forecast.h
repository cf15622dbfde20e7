#pragma once
// When all requests on a scoreboard end at one clock, and whether that is in time.
#include <cstdint>
#include <span>
#include <vector>

#include "model/beliefs.h"
#include "model/step.h"
#include "policy/throttllem/scoreboard.h"

namespace wattle::policy {

/// Assumptions of one forecast besides the scoreboard.
struct ForecastBasis {
  Instant begin;                    ///< when iteration board.next() begins
  std::int64_t prefill_tokens = 0;  ///< prompt tokens not yet computed: they lengthen the first iteration
  std::int32_t prefill_requests = 0;
  Span tbt = Span::max();                  ///< objective for the mean iteration
  Span reserve;                            ///< each request must end this much before its deadline
  RequestId own_deadline = RequestId{-1};  ///< this request's deadline is reported, not enforced
};

enum class Obstacle : std::uint8_t {
  None,
  Tbt,          ///< the mean iteration is too long
  Deadline,     ///< a request would end too late
  Disbelieved,  ///< the predictor's answer is not plausible
};

struct Forecast {
  Obstacle obstacle = Obstacle::None;
  bool own_deadline_missed = false;
};

/// Checks 2 and 3 of throttLL'eM. One prediction per stretch, at its mean KV: exact if step time is affine in KV tokens
/// at a given batch size (the linear predictor), otherwise the midpoint rule. The mean iteration is that of decodes
/// alone; prompts count towards deadlines (our choice: the paper's model has no prefill). Stores the scoreboard's
/// stretches as columns, so that what does not depend on the clock is computed once for all clocks tried. No allocation
/// once reserved.
class Forecaster {
 public:
  void reserve(std::size_t requests);

  /// Reads the board; the calls below refer to its state at this time.
  void read(const Scoreboard& board, const ForecastBasis& basis);

  /// Stops at the first missed deadline.
  [[nodiscard]] Forecast at(const LatencyModel& latency, MegaHertz clock);
  /// The lowest of `clocks` (ascending, not empty) without obstacle, by binary search, which assumes that a higher
  /// clock is never slower; the last if there is none.
  [[nodiscard]] MegaHertz lowest_clock(const LatencyModel& latency, std::span<const MegaHertz> clocks,
                                       Obstacle& at_top);
  /// The one of `clocks` (ascending, not empty) at which the board's requests use least energy by these models, the
  /// lower of equals; for clocks that lowest_clock() passed. The lowest if the predicted power is not plausible.
  [[nodiscard]] MegaHertz least_energy_clock(const LatencyModel& latency, const PowerModel& power,
                                             std::span<const MegaHertz> clocks) const;
  /// Predicted energy (mW ns) until the board is empty: its mean iteration times the number of iterations, exact if
  /// energy is affine in requests and KV tokens (a tile of the linear model), plus the prompts to compute. 0 or less:
  /// not plausible.
  [[nodiscard]] double effort(const LatencyModel& latency, const PowerModel& power, MegaHertz clock) const;
  /// Flags as lost each request that misses its deadline at this clock anyway; `board` is the one read. Returns their
  /// number.
  std::int32_t give_up_hopeless(Scoreboard& board, const LatencyModel& latency, MegaHertz clock);

 private:
  [[nodiscard]] Span prefill_delay(const LatencyModel& latency, MegaHertz clock) const;
  /// Calls visit(stretch, time from basis.begin to its end, including the reserve) in order until it returns false.
  template <typename Visit>
  Obstacle walk(const LatencyModel& latency, MegaHertz clock, Span& decoding, Visit&& visit);

  ForecastBasis basis_;
  // One entry per stretch, in order.
  std::vector<std::int32_t> requests_;
  std::vector<std::int64_t> kv_tokens_;   ///< mean over its iterations
  std::vector<std::int64_t> iterations_;  ///< how many
  std::vector<Span> limits_;              ///< from basis.begin to the tightest deadline that applies at its end
  std::vector<std::size_t> last_;         ///< board.requests()[last_[i-1], last_[i]) end with it
  std::vector<Span> steps_;               ///< predictions, scratch
  std::int64_t first_kv_tokens_ = 0;      ///< in iteration board.next()
  std::int64_t all_iterations_ = 0;
  StepShape mean_;       ///< mean iteration of the board
  StepShape prompts_;    ///< prompts to compute, by themselves; idle: none
  std::size_t own_ = 0;  ///< stretch with which own_deadline's request ends
  Span own_limit_ = Span::max();
};

}  // namespace wattle::policy
