#include "config/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace wattle::config {
namespace {

struct TextOf {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(std::int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return fmt::format("{:.10g}", v); }
  std::string operator()(const std::string& v) const { return fmt::format("\"{}\"", v); }
  std::string operator()(const std::vector<std::int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
};

}  // namespace

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
  }
  return "";
}

}  // namespace wattle::config
