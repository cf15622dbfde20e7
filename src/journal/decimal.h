#pragma once
// Fixed-point integers as decimal text, exactly: nanoseconds as seconds, milliwatts as watts, picojoules as joules; and
// digests as hexadecimal text.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/wide.h"

namespace wattle::journal {

/// Appends value / 10^decimals with exactly that many decimals ("-0.005" for -5 and 3). decimals in [1, 18].
void append_decimal(std::string& out, Int128 value, int decimals);
void append_whole(std::string& out, std::int64_t value);

/// The inverse: text x 10^decimals, further digits rounded half away from zero. Nothing for anything but an optional
/// minus, digits and at most one point, and for results of 2^100 and more.
[[nodiscard]] std::optional<Int128> parse_decimal(std::string_view text, int decimals);

/// 16 lower-case hexadecimal digits, the form in which digests appear in JSON.
[[nodiscard]] std::string digest_text(std::uint64_t value);

}  // namespace wattle::journal
