#pragma once
// Sections that a file may repeat: [[fleet]], [[worker]]. Each element is read by its record's options.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/fill.h"
#include "config/option.h"
#include "config/toml_document.h"

namespace wattle::config {

/// Entries and headers of one element of a list, or of all that is outside lists.
struct Part {
  std::vector<Entry> entries;
  std::vector<TableEntry> tables;
  std::string where;
};

/// A section that is repeated.
struct List {
  std::string name;  ///< "fleet"
  std::string element;
  std::vector<const OptionSpec*> specs;
  std::vector<Part> parts = {};

  [[nodiscard]] std::string key(std::size_t index, std::string_view option) const {
    return name + "." + std::to_string(index) + "." + std::string(option.substr(option.rfind('.') + 1));
  }
  [[nodiscard]] bool has(std::string_view option) const { return option == name || option.starts_with(name + "."); }
};

/// The N of "LIST.N.key" and of "LIST.N", or -1.
[[nodiscard]] std::int64_t element_index(std::string_view key, std::string_view list);

/// Takes the lists' elements out of `main`.
void split(const Document& document, Part& main, std::span<List> lists);

/// The i-th element as a record; its keys are those of the record: "fleet.0.gpu" is "fleet.gpu".
template <typename S>
Result<S> element(const List& list, std::size_t i, const std::vector<Option<S>>& options) {
  Part part = list.parts[i];
  const std::string prefix = list.name + "." + std::to_string(i) + ".";
  for (Entry& entry : part.entries) entry.key = list.name + "." + entry.key.substr(prefix.size());
  for (TableEntry& table : part.tables) table.key = list.name + "." + table.key.substr(prefix.size());
  if (auto ok = check_keys(list.specs, part.entries, part.tables, part.where); !ok) {
    return std::unexpected(std::move(ok.error()));
  }
  S record;
  if (auto ok = fill(options, part.entries, record); !ok) return std::unexpected(std::move(ok.error()));
  return record;
}

}  // namespace wattle::config
