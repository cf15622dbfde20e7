#include "journal/decimal.h"

#include <fmt/format.h>

#include <array>

#include "base/check.h"

namespace wattle::journal {
namespace {

constexpr Int128 kLimit = Int128{1} << 100;

constexpr std::array<std::uint64_t, 19> kPowersOfTen = [] {
  std::array<std::uint64_t, 19> powers{};
  std::uint64_t p = 1;
  for (auto& power : powers) {
    power = p;
    p *= 10;
  }
  return powers;
}();

}  // namespace

void append_whole(std::string& out, std::int64_t value) {
  const fmt::format_int text(value);
  out.append(text.data(), text.size());
}

void append_decimal(std::string& out, Int128 value, int decimals) {
  WATTLE_CHECK(decimals >= 1 && decimals <= 18 && value < kLimit && value > -kLimit, "decimal out of range");
  if (value < 0) {
    out.push_back('-');
    value = -value;
  }
  const std::uint64_t scale = kPowersOfTen[static_cast<std::size_t>(decimals)];
  std::uint64_t fraction = 0;
  Int128 whole = 0;
  if (value <= Int128{INT64_MAX}) {  // a 64-bit division is an order of magnitude cheaper
    const auto small = static_cast<std::uint64_t>(value);
    whole = static_cast<Int128>(small / scale);
    fraction = small % scale;
  } else {
    whole = value / static_cast<Int128>(scale);
    fraction = static_cast<std::uint64_t>(value % static_cast<Int128>(scale));
  }
  if (whole <= Int128{INT64_MAX}) {
    append_whole(out, static_cast<std::int64_t>(whole));
  } else {
    constexpr std::uint64_t kChunk = 1'000'000'000'000'000'000U;
    append_whole(out, static_cast<std::int64_t>(whole / static_cast<Int128>(kChunk)));
    fmt::format_to(std::back_inserter(out), "{:018}", static_cast<std::uint64_t>(whole % static_cast<Int128>(kChunk)));
  }
  out.push_back('.');
  std::array<char, 18> digits{};
  for (int i = decimals - 1; i >= 0; --i) {
    digits[static_cast<std::size_t>(i)] = static_cast<char>('0' + fraction % 10);
    fraction /= 10;
  }
  out.append(digits.data(), static_cast<std::size_t>(decimals));
}

std::optional<Int128> parse_decimal(std::string_view text, int decimals) {
  const bool negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  Int128 value = 0;
  int seen_decimals = -1;  // -1: no point yet
  bool any = false;
  bool round_up = false;
  for (const char c : text) {
    if (c == '.' && seen_decimals < 0) {
      seen_decimals = 0;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    any = true;
    if (seen_decimals >= decimals) {
      if (seen_decimals++ == decimals) round_up = c >= '5';
      continue;
    }
    value = value * 10 + (c - '0');
    if (seen_decimals >= 0) ++seen_decimals;
    if (value >= kLimit) return std::nullopt;
  }
  if (!any) return std::nullopt;
  for (int i = seen_decimals < 0 ? 0 : seen_decimals; i < decimals; ++i) {
    value *= 10;
    if (value >= kLimit) return std::nullopt;
  }
  if (round_up) value += 1;
  return negative ? -value : value;
}

std::string digest_text(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace wattle::journal
