#include "predict/gbdt/gbdt_latency.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/wide.h"

namespace wattle::predict {

Result<GbdtLatency> GbdtLatency::make(LinearBooster prefill, const GbdtTrees& decode, Target target) {
  if (prefill.weights.size() != 2) {
    return bad_input("prefill", "a weight for the clock and one for the tokens is needed");
  }
  auto table = TreeTable::make(decode, true, target);
  if (!table) return std::unexpected(table.error());
  return GbdtLatency(std::move(prefill), std::move(*table));
}

Result<GbdtLatency> GbdtLatency::make(const GbdtTrees& prefill, const GbdtTrees& decode) {
  auto prompts = TreeTable::make(prefill, false);
  if (!prompts) return std::unexpected(prompts.error());
  auto table = TreeTable::make(decode, true);
  if (!table) return std::unexpected(table.error());
  return GbdtLatency(std::move(*prompts), std::move(*table));
}

Span GbdtLatency::prefill_time(const StepShape& shape, MegaHertz clock) const {
  if (shape.prefill_tokens <= 0) return {};
  const auto mhz = static_cast<float>(clock.value());
  const auto tokens = static_cast<float>(shape.prefill_tokens);
  if (const auto* line = std::get_if<LinearBooster>(&prefill_)) {
    return Span(ns_of_ms(double{line->predict(std::array{mhz, tokens})}));
  }
  return Span(std::get<TreeTable>(prefill_).at(mhz, tokens, static_cast<float>(shape.prefill_context_tokens)));
}

const std::int64_t* GbdtLatency::decode_row(const StepShape& shape, MegaHertz clock) const {
  return decode_.row(static_cast<float>(clock.value()), static_cast<float>(shape.decode_requests));
}

Span GbdtLatency::step_time(const StepShape& shape, MegaHertz clock) const {
  Span time = prefill_time(shape, clock);
  if (shape.decode_requests > 0) {
    time = time + Span(decode_.at(static_cast<float>(clock.value()), static_cast<float>(shape.decode_requests),
                                  static_cast<float>(shape.decode_kv_tokens)));
  }
  return time;
}

std::int64_t GbdtLatency::kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const std::int64_t own = shape.decode_kv_tokens;
  if (step_time(shape, clock) > budget) return own;
  if (shape.decode_requests <= 0) return kAny;
  const std::int64_t left = (Int128{budget.ns()} - prefill_time(shape, clock).ns()) > kAny
                                ? kAny
                                : budget.ns() - prefill_time(shape, clock).ns();
  const auto& borders = decode_.thresholds();
  const std::int64_t* first = decode_row(shape, clock);
  const std::int64_t* last = first + borders.size() + 1;
  const auto column = static_cast<std::size_t>(std::upper_bound(first, last, left) - first);  // too long from here on
  if (column > borders.size()) return kAny;
  const float border = borders[column - 1];
  auto most = static_cast<std::int64_t>(std::ceil(double{border})) - 1;
  while (static_cast<float>(most) >= border) --most;  // beyond 2^24 several counts are one float
  return std::max(own, most);
}

}  // namespace wattle::predict
