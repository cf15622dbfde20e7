#pragma once
// Fills a struct from entries (of a file, or --set) through its option records. Anything unknown, of the wrong type or
// out of bounds is refused, with its place and the remedy.
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/option.h"
#include "config/toml_document.h"

namespace wattle::config {

/// "key=value" given on a command line, not yet tied to a record.
struct Override {
  std::string key;
  std::string text;
  std::string flag{};  ///< the flag that is equivalent to the key; empty: --set
  [[nodiscard]] std::string where() const { return flag.empty() ? "--set " + key : flag; }
};

/// Where each key was stated, for checks after parsing.
class Origins {
 public:
  Origins() = default;
  explicit Origins(const Document& document);
  void note(const std::string& key, std::string where) { where_[key] = std::move(where); }
  [[nodiscard]] bool has(std::string_view key) const { return where_.contains(key); }
  /// The key's own place, else its nearest enclosing table's, else the file's first line.
  [[nodiscard]] std::string of(std::string_view key) const;
  /// Whether its value was given on the command line.
  [[nodiscard]] bool commanded(std::string_view key) const { return of(key).starts_with("--"); }
  /// For a value made from several keys: the place of the first one given on the command line, else of the first.
  [[nodiscard]] std::string of_one(std::span<const std::string> keys) const;

 private:
  std::string file_;
  std::map<std::string, std::string, std::less<>> where_;
};

/// The value as the record's own type (integers widen to numbers), or why it is refused.
[[nodiscard]] Result<Value> checked(const OptionSpec& spec, const Entry& entry);

/// Reads `text` by the record's type, as --set does: strings need no quotes, lists no brackets; "none" is no value
/// where the record may have none.
[[nodiscard]] Result<Entry> entry_from_text(const OptionSpec& spec, const Override& override_);

/// The candidate that was probably meant, "" if none is similar.
[[nodiscard]] std::string nearest(std::string_view text, const std::vector<std::string>& candidates);

/// The error for a key no record has: suggests the nearest one, or lists the section's keys.
[[nodiscard]] Error unknown_key(const std::string& key, const std::string& where,
                                const std::vector<const OptionSpec*>& specs);

/// Refuses unknown keys and tables, and required keys that are absent.
[[nodiscard]] Result<void> check_keys(const std::vector<const OptionSpec*>& specs, const std::vector<Entry>& entries,
                                      const std::vector<TableEntry>& tables, const std::string& where_missing);

/// Replaces entries by overrides and records these as origins.
[[nodiscard]] Result<void> apply_overrides(const std::vector<const OptionSpec*>& specs,
                                           const std::vector<Override>& overrides, std::vector<Entry>& entries,
                                           Origins& origins);

/// Sets every entry that has a record, in the records' order (so a shorthand comes before what refines it).
template <typename S>
[[nodiscard]] Result<void> fill(const std::vector<Option<S>>& options, const std::vector<Entry>& entries, S& to) {
  for (const Option<S>& option : options) {
    for (const Entry& entry : entries) {
      if (entry.key != option.key) continue;
      Result<Value> value = checked(option, entry);
      if (!value) return std::unexpected(std::move(value.error()));
      option.set(to, *value);
    }
  }
  return {};
}

}  // namespace wattle::config
