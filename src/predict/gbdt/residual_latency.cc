#include "predict/gbdt/residual_latency.h"

#include <algorithm>
#include <limits>

#include "base/wide.h"

namespace wattle::predict {

namespace {
constexpr int kFractionBits = LinearLatency::kFractionBits;
}  // namespace

Result<ResidualLatency> ResidualLatency::make(std::shared_ptr<const LinearLatency> lines, const GbdtTrees& prefill,
                                              const GbdtTrees& decode) {
  auto prompts = TreeTable::make(prefill, false);
  if (!prompts) return std::unexpected(prompts.error());
  auto decodes = KvSteps::make(*lines, decode);
  if (!decodes) return std::unexpected(decodes.error());
  return ResidualLatency(std::move(lines), std::move(*prompts), std::move(*decodes));
}

Span ResidualLatency::prefill_rest(const StepShape& shape, MegaHertz clock) const {
  if (shape.prefill_tokens <= 0) return {};
  return Span(prefill_.at(static_cast<float>(clock.value()), static_cast<float>(shape.prefill_tokens),
                          static_cast<float>(shape.prefill_context_tokens)));
}

Span ResidualLatency::step_time(const StepShape& shape, MegaHertz clock) const {
  const Span rest = prefill_rest(shape, clock);
  if (shape.decode_requests <= 0) return std::max(Span(), lines_->step_time(shape, clock) + rest);
  const auto line = lines_->line(shape, clock);
  const Int128 time = decode_.time(line, decode_.row(clock, shape.decode_requests), shape.decode_kv_tokens);
  const auto believed = static_cast<std::int64_t>(
      std::max<Int128>(line.floor, std::clamp<Int128>(time, -LinearLatency::kLongest, LinearLatency::kLongest)));
  return std::max(Span(), Span(believed >> kFractionBits) + rest);
}

std::int64_t ResidualLatency::kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  const std::int64_t own = shape.decode_kv_tokens;
  if (step_time(shape, clock) > budget) return own;
  if (shape.decode_requests <= 0) return kAny;
  // time < (budget - rest + 1) << bits: the shift in step_time exactly undone.
  const Int128 limit = ((Int128{budget.ns()} - prefill_rest(shape, clock).ns() + 1) << kFractionBits) - 1;
  if (limit >= LinearLatency::kLongest) return kAny;
  return std::max(own, decode_.within(lines_->line(shape, clock), decode_.row(clock, shape.decode_requests), limit));
}

}  // namespace wattle::predict
