#include "config/record_text.h"

namespace wattle::config {

std::string section_of(const std::string& key) {
  const auto dot = key.rfind('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}
std::string leaf_of(const std::string& key) { return key.substr(key.rfind('.') + 1); }

std::string table_cell(std::string text) {
  for (auto at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text.empty() ? " " : text;
}

std::string value_text(const OptionSpec& spec, const Value& value) {
  if (spec.type != OptionType::Clock) return to_text(value);
  const std::string list = to_text(Value(std::vector<std::string>{std::get<std::string>(value)}));
  return list.substr(1, list.size() - 2);
}

std::string table_row(const OptionSpec& spec, const Value& standard) {
  const std::string text = spec.required ? "required" : "`" + value_text(spec, standard) + "`";
  return fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", leaf_of(spec.key), table_cell(type_text(spec)),
                     table_cell(spec.unit), table_cell(to_text(spec.bounds)), text, table_cell(spec.description));
}

}  // namespace wattle::config
