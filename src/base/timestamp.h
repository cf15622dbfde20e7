#pragma once
// Wall-clock text to a number, without a clock or a time zone database.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace wattle {

/// Nanoseconds since 1970-01-01 00:00 UTC of "YYYY-MM-DD HH:MM[:SS[.f]][Z|+HH:MM|-HH:MM]" ('T' may stand for the
/// blank; up to nine fraction digits; no zone means UTC). Nothing for anything else, for a date that does not exist
/// and for years outside 1970..2261.
[[nodiscard]] std::optional<std::int64_t> parse_timestamp(std::string_view text);

/// Whether a text that parse_timestamp reads ends with its zone: Z, +HH:MM or -HH:MM.
[[nodiscard]] bool states_zone(std::string_view timestamp);

/// "YYYY-MM-DD HH:MM:SS.fffffffff" in UTC; the inverse of parse_timestamp.
[[nodiscard]] std::string format_timestamp(std::int64_t ns_since_epoch);

}  // namespace wattle
