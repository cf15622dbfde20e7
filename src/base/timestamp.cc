#include "base/timestamp.h"

#include <fmt/core.h>

#include <chrono>

namespace wattle {

namespace {
/// Takes exactly `digits` decimal digits off the front; -1 if they are not there.
int take_digits(std::string_view& s, std::size_t digits) {
  if (s.size() < digits) return -1;
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (s[i] < '0' || s[i] > '9') return -1;
    value = value * 10 + (s[i] - '0');
  }
  s.remove_prefix(digits);
  return value;
}

bool take(std::string_view& s, char c) {
  if (!s.starts_with(c)) return false;
  s.remove_prefix(1);
  return true;
}

constexpr std::int64_t kNsPerS = 1'000'000'000;
}  // namespace

std::optional<std::int64_t> parse_timestamp(std::string_view s) {
  const int year = take_digits(s, 4);
  if (year < 1970 || year > 2261 || !take(s, '-')) return std::nullopt;
  const int month = take_digits(s, 2);
  if (month < 1 || !take(s, '-')) return std::nullopt;
  const int day = take_digits(s, 2);
  if (day < 1 || (!take(s, ' ') && !take(s, 'T'))) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  const int hour = take_digits(s, 2);
  if (hour < 0 || hour > 23 || !take(s, ':')) return std::nullopt;
  const int minute = take_digits(s, 2);
  if (minute < 0 || minute > 59) return std::nullopt;
  int second = 0;
  std::int64_t fraction = 0;
  if (take(s, ':')) {
    second = take_digits(s, 2);
    if (second < 0 || second > 59) return std::nullopt;
    if (take(s, '.')) {
      std::int64_t unit = kNsPerS;
      while (!s.empty() && s.front() >= '0' && s.front() <= '9') {
        unit /= 10;
        if (unit == 0) return std::nullopt;
        fraction += unit * (s.front() - '0');
        s.remove_prefix(1);
      }
      if (unit == kNsPerS) return std::nullopt;
    }
  }
  std::int64_t offset_minutes = 0;
  if (!s.empty() && !take(s, 'Z')) {
    const bool west = s.front() == '-';
    if (!take(s, '+') && !take(s, '-')) return std::nullopt;
    const int h = take_digits(s, 2);
    if (h < 0 || h > 23 || !take(s, ':')) return std::nullopt;
    const int m = take_digits(s, 2);
    if (m < 0 || m > 59) return std::nullopt;
    offset_minutes = (west ? -1 : 1) * (h * 60 + m);
  }
  if (!s.empty()) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = days * 86400 + hour * 3600 + minute * 60 + second - offset_minutes * 60;
  return seconds * kNsPerS + fraction;
}

bool states_zone(std::string_view timestamp) {
  constexpr std::size_t kOffset = 6;  // "+HH:MM"; the dashes of a date are further from the end
  if (timestamp.ends_with('Z')) return true;
  if (timestamp.size() < kOffset) return false;
  const char sign = timestamp[timestamp.size() - kOffset];
  return sign == '+' || sign == '-';
}

std::string format_timestamp(std::int64_t ns) {
  std::int64_t seconds = ns / kNsPerS;
  std::int64_t fraction = ns % kNsPerS;
  if (fraction < 0) {
    fraction += kNsPerS;
    --seconds;
  }
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::sys_seconds(std::chrono::seconds(seconds)));
  const std::chrono::year_month_day date(days);
  const std::int64_t of_day = seconds - std::int64_t{days.time_since_epoch().count()} * 86400;
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:09}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), of_day / 3600,
                     of_day / 60 % 60, of_day % 60, fraction);
}

}  // namespace wattle
