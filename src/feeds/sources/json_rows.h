#pragma once
// Private to sources/: JSON values with the path to them, so that an error can say where.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "units/time.h"

namespace wattle::feeds {

/// A value within an answer. Valid as long as the document.
class JsonAt {
 public:
  JsonAt(const nlohmann::json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] std::unexpected<Error> bad(std::string what) const { return bad_input(where_, std::move(what)); }
  [[nodiscard]] bool is_object() const { return value_->is_object(); }
  [[nodiscard]] bool is_array() const { return value_->is_array(); }
  [[nodiscard]] bool has(const char* key) const { return value_->is_object() && value_->contains(key); }
  /// Object member. Errors: no object, no such key.
  [[nodiscard]] Result<JsonAt> member(const char* key) const;
  /// Array elements. Errors: no array.
  [[nodiscard]] Result<std::vector<JsonAt>> elements() const;
  [[nodiscard]] Result<std::string> text(const char* key) const;
  /// "" where it is absent, null or no text.
  [[nodiscard]] std::string text_or_none(const char* key) const;
  /// Nothing for null. Errors: absent, or no number.
  [[nodiscard]] Result<std::optional<double>> number(const char* key) const;
  /// Errors: absent, no text, no time, or one without its zone: local time repeats an hour each autumn.
  [[nodiscard]] Result<Instant> time(const char* key) const;
  /// Of a key that says itself that it is UTC, so that the zone may be missing. Errors: absent, no text, or no time.
  [[nodiscard]] Result<Instant> utc_time(const char* key) const;
  [[nodiscard]] bool flag(const char* key) const;

 private:
  const nlohmann::json* value_;
  std::string where_;
};

/// Errors: not JSON (where = name), or an answer that is an error message instead.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text, const std::string& name);

}  // namespace wattle::feeds
