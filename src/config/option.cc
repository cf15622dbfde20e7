#include "config/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace wattle::config {
namespace {

/// The shortest decimal that reads back as `v`, but for the last bits that a unit's factor may have cost.
std::string decimal(double v) {
  for (const int digits : {10, 15}) {
    const std::string text = fmt::format("{:.{}g}", v, digits);
    if (std::abs(std::strtod(text.c_str(), nullptr) - v) <= 4 * std::numeric_limits<double>::epsilon() * std::abs(v)) {
      return text;
    }
  }
  return fmt::format("{:.17g}", v);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Numbers are written without quotes.
std::string bare_or_quoted(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? text : quoted(text);
}

struct TextOf {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return decimal(v); }
  std::string operator()(const std::string& v) const { return quoted(v); }
  std::string operator()(const std::vector<std::int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
  std::string operator()(const std::vector<std::string>& v) const {
    std::string list;
    for (const std::string& text : v) list += (list.empty() ? "" : ", ") + bare_or_quoted(text);
    return "[" + list + "]";
  }
};

}  // namespace

/// What clock_from() reads.
static constexpr const char* kClockForms =
    "MHz, \"max\", \"min\", \"0.7x\" (a share of max), \"sweet\", \"sweet+25%\" (towards max) or "
    "\"sweet-25%\" (towards the lowest known)";

std::optional<ClockSetting> clock_from(std::string_view text) {
  if (text == "max") return ClockSetting::highest();
  if (text == "min") return ClockSetting::lowest();
  if (text == "sweet") return ClockSetting::sweet();
  const bool above = text.starts_with("sweet+"), below = text.starts_with("sweet-");
  if (above || below) {
    if (!text.ends_with('%')) return std::nullopt;
    text.remove_prefix(std::string_view("sweet+").size());
  }
  const bool share = text.ends_with('x');
  if (share || above || below) text.remove_suffix(1);
  double number = 0.0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || end != text.data() + text.size() || !(number > 0.0)) return std::nullopt;
  if (above || below) {
    if (number >= 100.0) return std::nullopt;
    return ClockSetting::from_sweet((below ? -number : number) / 100.0);
  }
  if (share) return number <= 1.0 ? std::optional(ClockSetting::share(number)) : std::nullopt;
  if (number != std::floor(number) || number > 1e6) return std::nullopt;
  return ClockSetting(MegaHertz(static_cast<std::int32_t>(number)));
}

std::string clock_text(const ClockSetting& clock) {
  switch (clock.kind()) {
    case ClockSetting::Kind::Lowest:
      return "min";
    case ClockSetting::Kind::Highest:
      return "max";
    case ClockSetting::Kind::Sweet:
      return "sweet";
    case ClockSetting::Kind::FromSweet:
      return (clock.value() < 0.0 ? "sweet-" : "sweet+") + decimal(100.0 * std::abs(clock.value())) + "%";
    case ClockSetting::Kind::Share:
      return decimal(clock.value()) + "x";
    case ClockSetting::Kind::Fixed:
      break;
  }
  return fmt::format("{:.0f}", clock.value());
}

std::string to_text(const Value& value) { return std::visit(TextOf{}, value); }

std::string to_text(const Bounds& bounds) {
  std::string text;
  if (std::isfinite(bounds.min)) text = fmt::format("{} {:.10g}", bounds.open ? ">" : ">=", bounds.min);
  if (std::isfinite(bounds.max)) text += fmt::format("{}<= {:.10g}", text.empty() ? "" : ", ", bounds.max);
  return text;
}

std::string type_text(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::Boolean:
      return "true or false";
    case OptionType::Integer:
      return "integer";
    case OptionType::Number:
      return "number";
    case OptionType::Text:
      return "text";
    case OptionType::Choice:
      return fmt::format("one of \"{}\"", fmt::join(spec.choices, "\", \""));
    case OptionType::Integers:
      return "list of integers";
    case OptionType::Texts:
      return "list of texts";
    case OptionType::Clock:
      return kClockForms;
    case OptionType::Clocks:
      return std::string("list of clocks: ") + kClockForms;
  }
  return "";
}

}  // namespace wattle::config
