#include "predict/linear_latency.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/wide.h"

namespace wattle::predict {

namespace {

constexpr int kFractionBits = LinearLatency::kFractionBits;
constexpr std::int64_t kLongest = LinearLatency::kLongest;

std::int64_t clamp(Int128 v) {
  return v > kLongest ? kLongest : v < -kLongest ? -kLongest : static_cast<std::int64_t>(v);
}

std::int64_t to_fixed(double ns) {
  const double v = ns * static_cast<double>(std::int64_t{1} << kFractionBits);
  return v >= static_cast<double>(kLongest) ? kLongest : std::llround(v);
}

std::int64_t at(std::int64_t slope, std::int64_t count, std::int64_t constant) {
  return clamp(Int128{slope} * count + constant);
}

bool sound(double coefficient) { return std::isfinite(coefficient) && coefficient >= 0.0; }

}  // namespace

Result<LinearLatency> LinearLatency::make(LinearCoefficients c) {
  const std::string where = "latency model";
  if (c.clocks.empty()) return bad_input(where, "no clock; at least one must be measured");
  if (std::ranges::adjacent_find(c.tile_ends, std::greater_equal<>{}) != c.tile_ends.end() ||
      (!c.tile_ends.empty() && c.tile_ends.front() < 1)) {
    return bad_input(where, "tile ends must be positive and strictly ascending");
  }
  if (std::ranges::adjacent_find(c.prefill_ends, std::greater_equal<>{}) != c.prefill_ends.end() ||
      (!c.prefill_ends.empty() && c.prefill_ends.front() < 1)) {
    return bad_input(where, "prefill range ends must be positive and strictly ascending");
  }
  std::int32_t previous = 0;
  for (const auto& clock : c.clocks) {
    if (clock.clock.value() <= previous) {
      return bad_input(where, fmt::format("clocks must be positive and strictly ascending, {} MHz follows {} MHz",
                                          clock.clock.value(), previous));
    }
    previous = clock.clock.value();
    if (clock.decode.size() != c.tile_ends.size() + 1) {
      return bad_input(where, fmt::format("{} MHz has {} decode tiles, {} tile ends need {}", previous,
                                          clock.decode.size(), c.tile_ends.size(), c.tile_ends.size() + 1));
    }
    if (clock.prefill_ranges.size() != c.prefill_ends.size() + 1 &&
        !(clock.prefill_ranges.empty() && c.prefill_ends.empty())) {
      return bad_input(where,
                       fmt::format("{} MHz has {} prefill ranges, {} range ends need {}", previous,
                                   clock.prefill_ranges.size(), c.prefill_ends.size(), c.prefill_ends.size() + 1));
    }
    if (clock.prefill_ranges.empty() != c.clocks.front().prefill_ranges.empty()) {
      return bad_input(where, fmt::format("prefill ranges at some clocks only; {} MHz differs", previous));
    }
    const MixedLine mixed = clock.mixed.value_or(MixedLine{});
    bool all_sound =
        sound(clock.prefill.ns_per_token) && sound(clock.prefill.ns) && sound(mixed.ns) && sound(mixed.ns_per_request);
    for (const auto& plane : clock.prefill_ranges) {
      all_sound = all_sound && sound(plane.ns_per_token) && sound(plane.ns_per_pair) && sound(plane.ns_per_prompt) &&
                  sound(plane.ns);
    }
    for (const auto& plane : clock.decode) {
      all_sound = all_sound && sound(plane.ns_per_request) && sound(plane.ns_per_kv_token) && sound(plane.ns);
    }
    if (!all_sound) {
      return bad_input(where, fmt::format("a coefficient at {} MHz is negative or not finite", previous));
    }
  }
  if (c.windowed.window < 0 || !(c.windowed.share >= 0.0 && c.windowed.share <= 1.0)) {
    return bad_input(where, "the window of some layers is negative, or their share not in [0, 1]");
  }
  for (const HostLine& host : {c.host, c.prompt_host}) {
    if (sound(host.ns) && sound(host.ns_per_request)) continue;
    return bad_input(where, "the host's time is negative or not finite");
  }
  return LinearLatency(std::move(c));
}

LinearLatency::LinearLatency(LinearCoefficients coefficients)
    : coefficients_(std::move(coefficients)),
      tiles_(coefficients_.tile_ends.size() + 1),
      ranges_(coefficients_.prefill_ends.size() + 1) {
  host_ = {to_fixed(coefficients_.host.ns_per_request), 0, to_fixed(coefficients_.host.ns)};
  prompt_host_ = {to_fixed(coefficients_.prompt_host.ns_per_request), 0, to_fixed(coefficients_.prompt_host.ns)};
  for (const auto& clock : coefficients_.clocks) {
    mhz_.push_back(clock.clock.value());
    if (clock.prefill_ranges.empty()) {
      prompts_.push_back({to_fixed(clock.prefill.ns_per_token), 0, 0, to_fixed(clock.prefill.ns)});
    }
    for (const auto& plane : clock.prefill_ranges) {
      prompts_.push_back({to_fixed(plane.ns_per_token), to_fixed(plane.ns_per_pair), to_fixed(plane.ns_per_prompt),
                          to_fixed(plane.ns)});
    }
    auto& mixed = mixed_.emplace_back();
    if (clock.mixed) mixed = {to_fixed(clock.mixed->ns_per_request), 0, to_fixed(clock.mixed->ns)};
    for (const auto& plane : clock.decode) {
      planes_.push_back({to_fixed(plane.ns_per_request), to_fixed(plane.ns_per_kv_token), to_fixed(plane.ns)});
    }
  }
}

std::size_t LinearLatency::tile_of(std::int32_t requests) const {
  const auto& ends = coefficients_.tile_ends;
  return static_cast<std::size_t>(std::ranges::lower_bound(ends, requests) - ends.begin());
}

std::int64_t LinearLatency::prompt_time(std::int64_t tokens, std::int64_t pairs, std::int32_t prompts,
                                        std::size_t clock_index) const {
  const auto& ends = coefficients_.prefill_ends;
  const auto range = static_cast<std::size_t>(std::ranges::lower_bound(ends, tokens) - ends.begin());
  const FixedPrompt& p = prompts_[clock_index * ranges_ + range];
  return clamp(Int128{p.per_token} * tokens + Int128{p.per_pair} * pairs + Int128{p.per_prompt} * prompts + p.constant);
}

LinearLatency::Line LinearLatency::line_at(const StepShape& shape, std::size_t clock_index, std::size_t tile) const {
  const auto pass_of = [&](std::int64_t tokens) {  // steps of decodes alone, the most frequent, do not come here
    const std::int64_t pairs = coefficients_.windowed.seen(shape.prefill_context_tokens, shape.prefill_tokens);
    return prompt_time(tokens, pairs, shape.prefill_requests, clock_index);
  };
  if (shape.decode_requests == 0) {
    return {pass_of(shape.prefill_tokens), 0,
            at(prompt_host_.per_request, shape.prefill_requests, prompt_host_.constant)};
  }
  const FixedPlane& plane = planes_[clock_index * tiles_ + tile];
  Line line{at(plane.per_request, shape.decode_requests, plane.constant), plane.per_kv_token,
            at(host_.per_request, shape.decode_requests, host_.constant)};
  if (shape.prefill_tokens > 0) {
    const std::int64_t tokens = clamp(Int128{shape.prefill_tokens} + shape.decode_requests);
    const std::int64_t pass = pass_of(tokens);
    if (const auto& more = mixed_[clock_index]) {
      line.base = clamp(Int128{pass} + Int128{more->per_request} * shape.decode_requests + more->constant);
    } else {
      const Int128 longer = std::max<Int128>(0, Int128{pass} - prompt_time(shape.decode_requests, 0, 0, clock_index));
      line.base = clamp(std::max<Int128>(pass, Int128{line.base} + longer));
    }
  }
  return line;
}

LinearLatency::Line LinearLatency::line(const StepShape& shape, MegaHertz clock) const {
  if (shape.idle()) return {};
  const std::size_t tile = shape.decode_requests == 0 ? 0 : tile_of(shape.decode_requests);
  std::size_t above = 0;
  while (above < mhz_.size() && mhz_[above] < clock.value()) ++above;
  if (above < mhz_.size() && mhz_[above] == clock.value()) return line_at(shape, above, tile);
  if (mhz_.size() == 1) return line_at(shape, 0, tile);

  // The nearest two: on both sides, or the outermost pair.
  above = std::clamp<std::size_t>(above, 1, mhz_.size() - 1);
  const Line low = line_at(shape, above - 1, tile);
  const Line high = line_at(shape, above, tile);
  const double f0 = mhz_[above - 1];
  const double f1 = mhz_[above];
  const double f = std::max(1, clock.value());
  const double share = (1.0 / f0 - 1.0 / f) / (1.0 / f0 - 1.0 / f1);  // 0 at f0, 1 at f1
  const auto blend = [share](std::int64_t a, std::int64_t b) {
    const double v = static_cast<double>(a) + share * (static_cast<double>(b) - static_cast<double>(a));
    return v <= 0.0 ? 0 : v >= static_cast<double>(kLongest) ? kLongest : std::llround(v);
  };
  return {blend(low.base, high.base), blend(low.slope, high.slope), low.floor};
}

Span LinearLatency::Line::time(std::int64_t kv_tokens) const {
  return Span(std::max(at(slope, kv_tokens, base), floor) >> kFractionBits);
}

Span LinearLatency::step_time(const StepShape& shape, MegaHertz clock) const {
  return line(shape, clock).time(shape.decode_kv_tokens);
}

void LinearLatency::decode_times(std::span<const std::int32_t> requests, std::span<const std::int64_t> kv_tokens,
                                 MegaHertz clock, std::span<Span> out) const {
  const auto known = std::ranges::lower_bound(mhz_, clock.value());
  if (known == mhz_.end() || *known != clock.value()) {
    return LatencyModel::decode_times(requests, kv_tokens, clock, out);
  }
  const FixedPlane* planes = planes_.data() + static_cast<std::size_t>(known - mhz_.begin()) * tiles_;
  const auto& ends = coefficients_.tile_ends;
  std::size_t tile = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int32_t n = requests[i];
    while (tile < ends.size() && n > ends[tile]) ++tile;
    while (tile > 0 && n <= ends[tile - 1]) --tile;
    const FixedPlane& plane = planes[tile];
    const Line line{at(plane.per_request, n, plane.constant), plane.per_kv_token,
                    at(host_.per_request, n, host_.constant)};
    out[i] = line.time(kv_tokens[i]);
  }
}

std::int64_t LinearLatency::kv_tokens_within(const StepShape& shape, MegaHertz clock, Span budget) const {
  const Line l = line(shape, clock);
  const std::int64_t own = shape.decode_kv_tokens;
  if (budget < l.time(own)) return own;
  if (l.slope == 0 || budget.ns() >= kLongest >> kFractionBits) return std::numeric_limits<std::int64_t>::max();
  // base + slope x kv < (budget + 1) << bits, exactly the shift above undone.
  const std::int64_t limit = ((budget.ns() + 1) << kFractionBits) - 1;
  return std::max(own, (limit - l.base) / l.slope);
}

bool LinearLatency::extrapolates(const StepShape& shape, MegaHertz clock) const {
  const auto& c = coefficients_;
  return clock < c.clocks.front().clock || clock > c.clocks.back().clock ||
         (shape.prefill_tokens > 0 && shape.prefill_tokens < c.prefill_tokens_min) ||
         (shape.decode_requests > 0 && shape.decode_requests < c.decode_requests_min) ||
         shape.prefill_tokens > c.prefill_tokens_max || shape.decode_requests > c.decode_requests_max ||
         shape.decode_kv_tokens > c.decode_kv_tokens_max;
}

}  // namespace wattle::predict
