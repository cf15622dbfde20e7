#include "config/repeated.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace wattle::config {

std::int64_t element_index(std::string_view key, std::string_view list) {
  if (!key.starts_with(list) || !key.substr(list.size()).starts_with('.')) return -1;
  key.remove_prefix(list.size() + 1);
  std::int64_t index = -1;
  const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), index);
  const bool whole = end == key.data() + key.size() || *end == '.';
  return code == std::errc{} && whole ? index : -1;
}

void split(const Document& document, Part& main, std::span<List> lists) {
  main.where = document.file + ":1";
  for (const TableEntry& table : document.tables) {
    const auto list = std::ranges::find_if(lists, [&](const List& l) { return l.has(table.key); });
    const std::int64_t index = list == lists.end() ? -1 : element_index(table.key, list->name);
    if (list != lists.end() && table.key == list->name) continue;
    if (index < 0) {
      main.tables.push_back(table);
      continue;
    }
    const auto i = static_cast<std::size_t>(index);
    if (list->parts.size() <= i) list->parts.resize(i + 1);
    if (table.key == fmt::format("{}.{}", list->name, index)) {
      list->parts[i].where = table.where;
    } else {
      list->parts[i].tables.push_back(table);
    }
  }
  for (const Entry& entry : document.entries) {
    const auto list = std::ranges::find_if(lists, [&](const List& l) { return l.has(entry.key); });
    const std::int64_t index = list == lists.end() ? -1 : element_index(entry.key, list->name);
    if (index < 0 || static_cast<std::size_t>(index) >= list->parts.size()) {
      main.entries.push_back(entry);
    } else {
      list->parts[static_cast<std::size_t>(index)].entries.push_back(entry);
    }
  }
}

}  // namespace wattle::config
