#pragma once
// The trace of a request according to W3C Trace Context (level 1, sections 3.2 and 3.3). Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace wattle::gateway {

/// 128 bits, not all of them 0.
struct TraceId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const TraceId&) const = default;
};

/// The content of a traceparent field.
struct TraceContext {
  TraceId trace;
  std::uint64_t span = 0;  ///< the sender's; not 0
  bool sampled = false;    ///< the sender records its span
  bool operator==(const TraceContext&) const = default;
};

/// None: the field is missing or malformed, and a new trace begins here.
[[nodiscard]] std::optional<TraceContext> read_traceparent(std::string_view field);
[[nodiscard]] std::string traceparent(const TraceContext& context);
/// 32 and 16 hexadecimal digits.
[[nodiscard]] std::string hex(TraceId trace);
[[nodiscard]] std::string hex(std::uint64_t span);

}  // namespace wattle::gateway
