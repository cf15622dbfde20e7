#pragma once
// A TOML text flattened to dotted keys with their source lines. The TOML library stays behind this header.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/option_codec.h"

namespace wattle::config {

/// One written value. `kind` names TOML types no option takes (date, mixed array ...); then `value` is absent.
struct Entry {
  std::string key;
  Value value;
  std::string kind;
  std::string where;  ///< "file:line", or "--set key"
};

/// One table header or array-of-tables element ("fleet.0").
struct TableEntry {
  std::string key;
  std::string where;
};

struct Document {
  std::string file;
  std::vector<Entry> entries;
  std::vector<TableEntry> tables;
};

/// BadInput with file:line when the text is not TOML.
[[nodiscard]] Result<Document> parse_toml(std::string_view text, const std::string& file);
/// A file's bytes; BadInput when it is absent, no regular file, or too large to be configuration.
[[nodiscard]] Result<std::string> read_text(const std::string& file);

}  // namespace wattle::config
