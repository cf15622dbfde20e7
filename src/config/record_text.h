#pragma once
// Texts made from option records: Markdown tables of keys, and a file's effective values.
#include <fmt/format.h>

#include <string>
#include <variant>
#include <vector>

#include "config/option.h"

namespace wattle::config {

[[nodiscard]] std::string section_of(const std::string& key);
[[nodiscard]] std::string leaf_of(const std::string& key);
/// "|" would end a Markdown table's cell.
[[nodiscard]] std::string table_cell(std::string text);
inline constexpr const char* kTableHead =
    "\n| key | type | unit | bounds | default | meaning |\n|---|---|---|---|---|---|\n";
/// As to_text(value), a clock in MHz without quotes.
[[nodiscard]] std::string value_text(const OptionSpec& spec, const Value& value);
[[nodiscard]] std::string table_row(const OptionSpec& spec, const Value& standard);

/// One Markdown table per section, in the records' order.
template <typename S>
std::string tables(const std::vector<Option<S>>& options, bool list) {
  const S defaults{};
  std::string text;
  std::string section = "\n";  // no section is called so: the first row opens a table
  for (const Option<S>& option : options) {
    if (section_of(option.key) != section) {
      section = section_of(option.key);
      if (!section.empty()) text += fmt::format("\n## {0}{1}{2}\n", list ? "[[" : "[", section, list ? "]]" : "]");
      if (option.shorthand) text += "\nSets the same key of every section below it; a key written there wins.\n";
      text += kTableHead;
    }
    text += table_row(option, option.get(defaults));
  }
  return text;
}

/// `key = value` lines under their section's header; `written` says whether a dotted key was in the file.
template <typename S, typename Written>
void append_values(std::string& text, const std::vector<Option<S>>& options, const S& s, std::string section,
                   const Written& written) {
  for (const Option<S>& option : options) {
    if (option.shorthand) continue;
    if (section_of(option.key) != section) {
      section = section_of(option.key);
      text += fmt::format("\n[{}]\n", section);
    }
    const Value value = option.get(s);
    const std::string note = written(option.key) ? "" : "  # default";
    if (std::holds_alternative<std::monostate>(value)) {
      text += fmt::format("# {}: none{}\n", leaf_of(option.key), note.empty() ? "" : ", the default");
    } else {
      text += fmt::format("{} = {}{}\n", leaf_of(option.key), value_text(option, value), note);
    }
  }
}

}  // namespace wattle::config
