#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace wattle::report {
namespace {

constexpr std::string_view kThinSpace = "\u202f";  ///< at which no line breaks
constexpr std::string_view kMinus = "\u2212";
constexpr std::string_view kReplacement = "\uFFFD";

void group_thousands(std::string& digits, std::size_t end) {
  if (end <= 4) return;
  for (std::size_t at = end; at > 3;) {
    at -= 3;
    digits.insert(at, kThinSpace);
  }
}

/// Length of a well-formed multi-byte UTF-8 sequence at the front; 0 for none. Overlong forms pass: browsers cope.
std::size_t sequence(std::string_view s) {
  const auto lead = static_cast<unsigned char>(s.front());
  const std::size_t n = lead >= 0xF0U && lead < 0xF5U ? 4 : lead >= 0xE0U ? 3 : lead >= 0xC2U ? 2 : 0;
  if (n == 0 || lead >= 0xF5U || s.size() < n) return 0;
  const auto tail = s.substr(1, n - 1);
  return std::all_of(tail.begin(), tail.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; })
             ? n
             : 0;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char c = text.front();
    std::size_t taken = 1;
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (static_cast<unsigned char>(c) >= 0x80U) {
      taken = sequence(text);
      out += taken == 0 ? kReplacement : text.substr(0, taken);
      taken = std::max<std::size_t>(taken, 1);
    } else if (static_cast<unsigned char>(c) < 0x20U && c != '\n' && c != '\t') {
      out += kReplacement;
    } else {
      out.push_back(c);
    }
    text.remove_prefix(taken);
  }
  return out;
}

std::string number(double value, int digits) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  const int magnitude = size > 0.0 ? static_cast<int>(std::floor(std::log10(size) + 1e-9)) : 0;
  const int decimals = size == 0.0 ? 0 : std::clamp(digits - 1 - magnitude, 0, 9);
  std::string text = fmt::format("{:.{}f}", size, decimals);
  group_thousands(text, std::min(text.find('.'), text.size()));
  return (value < 0.0 ? std::string(kMinus) : std::string()) + text;
}

std::string whole(std::int64_t value) {
  std::string text =
      fmt::format("{}", value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value));
  group_thousands(text, text.size());
  return (value < 0 ? std::string(kMinus) : std::string()) + text;
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "–";
  const double p = share * 100.0;
  if (share >= 1.0) return "100\u202f%";
  if (p >= 99.9) return fmt::format("{:.2f}\u202f%", std::floor(p * 100.0) / 100.0);
  return fmt::format("{:.1f}\u202f%", p);
}

std::string change(double relative) {
  if (!std::isfinite(relative)) return "–";
  const double p = std::round(relative * 1000.0) / 10.0;
  if (p == 0.0) return "±0\u202f%";
  return fmt::format("{}{:.1f}\u202f%", p < 0.0 ? kMinus : std::string_view("+"), std::abs(p));
}

std::string duration_ms(double ms) {
  if (!std::isfinite(ms)) return "–";
  if (ms == 0.0) return "0\u202fms";
  if (ms < 1.0) return number(ms * 1e3, 3) + "\u202fµs";
  if (ms < 1000.0) return number(ms, 3) + "\u202fms";
  if (ms < 180e3) return number(ms * 1e-3, 3) + "\u202fs";
  if (ms < 10.8e6) return number(ms / 60e3, 3) + "\u202fmin";
  return number(ms / 3.6e6, 3) + "\u202fh";
}

Scaled scaled(double largest, std::string_view base_unit) {
  struct Step {
    double from;
    const char* prefix;
  };
  constexpr std::array<Step, 5> kSteps = {Step{1e12, "T"}, Step{1e9, "G"}, Step{1e6, "M"}, Step{1e4, "k"},
                                          Step{0.1, ""}};
  for (const Step& step : kSteps) {
    if (largest < step.from) continue;
    const double factor = step.from == 1e4 ? 1e-3 : step.from == 0.1 ? 1.0 : 1.0 / step.from;
    return {factor, std::string(step.prefix) + std::string(base_unit)};
  }
  return largest > 0.0 ? Scaled{1e3, "m" + std::string(base_unit)} : Scaled{1.0, std::string(base_unit)};
}

}  // namespace wattle::report
