#pragma once
// Numbers and names as a reader of the page sees them.
#include <cstdint>
#include <string>
#include <string_view>

namespace wattle::report {

/// Text safe inside HTML elements and double-quoted attributes; control bytes and broken UTF-8 become U+FFFD.
[[nodiscard]] std::string escape(std::string_view text);

/// About `digits` significant digits without exponent, thousands separated by a thin space: "12 345", "0.0123".
[[nodiscard]] std::string number(double value, int digits = 3);
/// "19 366".
[[nodiscard]] std::string whole(std::int64_t value);
/// "98.2 %" of a share in [0, 1]; one decimal, two from 99.9 % on, and never "100" for less than all.
[[nodiscard]] std::string percent(double share);
/// A relative change with its sign: "−24.1 %", "+3.0 %", "±0 %".
[[nodiscard]] std::string change(double relative);
/// Milliseconds in the unit that suits them: "37.0 µs", "12.3 ms", "4.56 s", "29.3 min".
[[nodiscard]] std::string duration_ms(double ms);

/// A unit with its factor, chosen so that `largest` has one to four digits before the point.
struct Scaled {
  double factor = 1.0;  ///< value x factor is in `unit`
  std::string unit;
};
[[nodiscard]] Scaled scaled(double largest, std::string_view base_unit);

}  // namespace wattle::report
