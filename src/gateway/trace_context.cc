#include "gateway/trace_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace wattle::gateway {

namespace {

/// Lower case alone: capitals are not allowed.
std::optional<std::uint64_t> read_hex(std::string_view digits) {
  const auto fine = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  std::uint64_t value = 0;
  if (!std::ranges::all_of(digits, fine)) return std::nullopt;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return ec == std::errc() && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<TraceContext> read_traceparent(std::string_view field) {
  constexpr std::size_t kSize = 55;  // version-trace-parent-flags: 2 + 1 + 32 + 1 + 16 + 1 + 2
  if (field.size() < kSize || field[2] != '-' || field[35] != '-' || field[52] != '-') return std::nullopt;
  const auto version = read_hex(field.substr(0, 2));
  if (!version || *version == 0xff) return std::nullopt;
  // Of versions to come the first four parts are read, and what follows is left alone (section 3.2.4).
  if (field.size() > kSize && (*version == 0 || field[kSize] != '-')) return std::nullopt;
  const auto high = read_hex(field.substr(3, 16));
  const auto low = read_hex(field.substr(19, 16));
  const auto span = read_hex(field.substr(36, 16));
  const auto flags = read_hex(field.substr(53, 2));
  if (!high || !low || !span || !flags || (*high | *low) == 0 || *span == 0) return std::nullopt;
  return TraceContext{{*high, *low}, *span, (*flags & 1U) != 0};
}

std::string hex(TraceId trace) { return fmt::format("{:016x}{:016x}", trace.high, trace.low); }
std::string hex(std::uint64_t span) { return fmt::format("{:016x}", span); }

std::string traceparent(const TraceContext& context) {
  return fmt::format("00-{}-{}-{}", hex(context.trace), hex(context.span), context.sampled ? "01" : "00");
}

}  // namespace wattle::gateway
