#include "predict/gbdt/residual_latency.h"

#include <algorithm>
#include <cmath>

namespace wattle::predict {

Span ResidualLatency::prefill_rest(const StepShape& shape, MegaHertz clock) const {
  if (shape.prefill_tokens <= 0) return {};
  return Span(prefill_.at(static_cast<float>(clock.value()), static_cast<float>(shape.prefill_tokens),
                          static_cast<float>(shape.prefill_context_tokens)));
}

Span ResidualLatency::step_time(const StepShape& shape, MegaHertz clock) const {
  Span time = lines_->step_time(shape, clock) + prefill_rest(shape, clock);
  if (shape.decode_requests > 0) {
    time = time + Span(decode_.at(static_cast<float>(clock.value()), static_cast<float>(shape.decode_requests),
                                  static_cast<float>(shape.decode_kv_tokens)));
  }
  return std::max(Span(), time);
}

std::int64_t ResidualLatency::first_of(std::size_t cell) const {
  if (cell == 0) return 0;
  const float border = decode_.thresholds()[cell - 1];
  auto first = static_cast<std::int64_t>(std::ceil(double{border}));
  while (static_cast<float>(first - 1) >= border) --first;  // beyond 2^24 several counts are one float
  return first;
}

std::int64_t ResidualLatency::kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const {
  const std::int64_t own = shape.decode_kv_tokens;
  if (step_time(shape, clock) > budget) return own;
  const Span left = budget - prefill_rest(shape, clock);
  if (shape.decode_requests <= 0) return lines_->kv_tokens_within(shape, clock, left);
  const auto& borders = decode_.thresholds();
  const std::int64_t* row = decode_.row(static_cast<float>(clock.value()), static_cast<float>(shape.decode_requests));
  StepShape grown = shape;
  auto cell = static_cast<std::size_t>(std::ranges::upper_bound(borders, static_cast<float>(own)) - borders.begin());
  for (std::size_t beyond = borders.size() + 1; cell + 1 < beyond;) {  // the last cell whose first tokens are within
    const std::size_t middle = cell + (beyond - cell) / 2;
    grown.decode_kv_tokens = first_of(middle);
    (lines_->step_time(grown, clock) + Span(row[middle]) <= left ? cell : beyond) = middle;
  }
  grown.decode_kv_tokens = std::max(own, first_of(cell));
  const std::int64_t most = lines_->kv_tokens_within(grown, clock, left - Span(row[cell]));
  return cell < borders.size() ? std::min(most, first_of(cell + 1) - 1) : most;
}

}  // namespace wattle::predict
