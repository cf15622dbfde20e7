#include "policy/throttllem/forecast.h"

#include <algorithm>

namespace wattle::policy {

namespace {

/// No engine iteration takes this long; a prediction beyond it is a broken predictor, not a slow step.
constexpr Span kLongestBelievable = Span::s(600);

bool believable(Span predicted) { return predicted > Span() && predicted <= kLongestBelievable; }

/// How much longer the first iteration takes because of prompt tokens; negative: not believable.
Span prefill_delay(const Scoreboard& board, const LatencyModel& latency, MegaHertz clock, const ForecastBasis& basis) {
  if (basis.prefill_tokens <= 0) return {};
  StepShape shape;
  shape.prefill_requests = std::max(basis.prefill_requests, 1);
  shape.prefill_tokens = basis.prefill_tokens;
  shape.prefill_context_tokens = basis.prefill_tokens * (basis.prefill_tokens / shape.prefill_requests) / 2;
  Span decode;
  board.walk([&](const Stretch& stretch, std::size_t, std::size_t) {
    shape.decode_requests = std::max(stretch.requests - shape.prefill_requests, 0);
    if (shape.decode_requests > 0) {
      // The prompts' own tokens are read by nobody yet.
      shape.decode_kv_tokens = std::max<std::int64_t>(stretch.kv_tokens_at_from - basis.prefill_tokens, 0);
      StepShape alone;
      alone.decode_requests = shape.decode_requests;
      alone.decode_kv_tokens = shape.decode_kv_tokens;
      decode = latency.step_time(alone, clock);
    }
    return false;
  });
  const Span mixed = latency.step_time(shape, clock);
  if (!believable(mixed) || decode < Span()) return Span(-1);
  return std::max(mixed - decode, Span());
}

/// visit(end, first, last) for each stretch. False when a prediction is not believable or visit said stop.
template <typename Visit>
bool walk_in_time(const Scoreboard& board, const LatencyModel& latency, MegaHertz clock, const ForecastBasis& basis,
                  Obstacle& obstacle, Span& decoding, Visit&& visit) {
  const Span prefill = prefill_delay(board, latency, clock, basis);
  if (prefill < Span()) {
    obstacle = Obstacle::Disbelieved;
    return false;
  }
  Instant at = basis.begin + prefill;
  StepShape shape;
  return board.walk([&](const Stretch& stretch, std::size_t first, std::size_t last) {
    shape.decode_requests = stretch.requests;
    shape.decode_kv_tokens = stretch.mean_kv_tokens();
    const Span step = latency.step_time(shape, clock);
    if (!believable(step)) {
      obstacle = Obstacle::Disbelieved;
      return false;
    }
    const std::int64_t iterations = stretch.until - stretch.from;
    // 2^63 ns are 15 million iterations of 600 s: no sum of believable steps comes near on a real board.
    const Span whole = step * iterations;
    at += whole;
    decoding += whole;
    return visit(at, first, last);
  });
}

}  // namespace

Forecast forecast(const Scoreboard& board, const LatencyModel& latency, MegaHertz clock, const ForecastBasis& basis) {
  Forecast result;
  Span decoding;
  const auto requests = board.requests();
  const bool complete = walk_in_time(board, latency, clock, basis, result.obstacle, decoding,
                                     [&](Instant at, std::size_t first, std::size_t last) {
                                       for (std::size_t i = first; i < last; ++i) {
                                         if (at + basis.reserve <= requests[i].deadline) continue;
                                         if (requests[i].id == basis.own_deadline) {
                                           result.own_deadline_missed = true;
                                         } else if (!requests[i].lost) {
                                           result.obstacle = Obstacle::Deadline;
                                           return false;
                                         }
                                       }
                                       return true;
                                     });
  if (!complete || board.empty()) return result;
  const std::int64_t iterations = board.ends().back() - board.next();
  if (decoding / iterations > basis.tbt) result.obstacle = Obstacle::Tbt;
  return result;
}

std::int32_t mark_hopeless(Scoreboard& board, const LatencyModel& latency, MegaHertz clock,
                           const ForecastBasis& basis) {
  const std::int32_t before = board.lost();
  Obstacle ignored{};
  Span decoding;
  walk_in_time(board, latency, clock, basis, ignored, decoding, [&](Instant at, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      if (at + basis.reserve > board.requests()[i].deadline) board.mark_lost(i);
    }
    return true;
  });
  return board.lost() - before;
}

MegaHertz lowest_clock(const Scoreboard& board, const LatencyModel& latency, std::span<const MegaHertz> clocks,
                       const ForecastBasis& basis, Obstacle& at_top) {
  at_top = forecast(board, latency, clocks.back(), basis).obstacle;
  if (at_top != Obstacle::None) return clocks.back();
  const auto fails = [&](MegaHertz clock) { return forecast(board, latency, clock, basis).obstacle != Obstacle::None; };
  return *std::ranges::partition_point(clocks.first(clocks.size() - 1), fails);
}

}  // namespace wattle::policy
