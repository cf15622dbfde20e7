#pragma once
// When everything on a scoreboard ends at one clock, and whether that is in time.
#include <cstdint>
#include <span>

#include "model/beliefs.h"
#include "policy/throttllem/scoreboard.h"

namespace wattle::policy {

/// What one forecast assumes besides the scoreboard.
struct ForecastBasis {
  Instant begin;                    ///< iteration board.next() begins
  std::int64_t prefill_tokens = 0;  ///< prompt tokens not computed yet: they lengthen the first iteration
  std::int32_t prefill_requests = 0;
  Span tbt = Span::max();                  ///< objective for the mean iteration
  Span reserve;                            ///< everyone is to end so much before its deadline
  RequestId own_deadline = RequestId{-1};  ///< this request's deadline is reported, not enforced
};

enum class Obstacle : std::uint8_t {
  None,
  Tbt,          ///< the mean iteration is too long
  Deadline,     ///< somebody would end too late
  Disbelieved,  ///< the predictor answered nonsense
};

struct Forecast {
  Obstacle obstacle = Obstacle::None;
  bool own_deadline_missed = false;
};

/// Checks 2 and 3 of throttLL'eM. One prediction per stretch, at its mean KV: exact where step time is affine in KV
/// tokens at a given batch size (the linear predictor), the midpoint rule elsewhere. The mean iteration is that of
/// decodes alone; prompts count towards deadlines (decision: the paper's model has no prefill). Stops at the first
/// deadline missed. No allocation.
[[nodiscard]] Forecast forecast(const Scoreboard& board, const LatencyModel& latency, MegaHertz clock,
                                const ForecastBasis& basis);

/// Marks as lost whoever misses its deadline at this clock anyway. Returns how many.
std::int32_t mark_hopeless(Scoreboard& board, const LatencyModel& latency, MegaHertz clock, const ForecastBasis& basis);

/// Lowest of `clocks` (ascending, not empty) without obstacle by binary search, which supposes that a higher clock is
/// never slower; the last when none is.
[[nodiscard]] MegaHertz lowest_clock(const Scoreboard& board, const LatencyModel& latency,
                                     std::span<const MegaHertz> clocks, const ForecastBasis& basis, Obstacle& at_top);

}  // namespace wattle::policy
