#pragma once
// Two visitors over one list of keys, so that what is written and what is read cannot drift apart. Internal to the
// library's .cc files: the only header that includes the whole of nlohmann/json.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "journal/decimal.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::journal {

using Json = nlohmann::ordered_json;

/// Writes the visited values as an object's keys, in visiting order.
class JsonWriter {
 public:
  explicit JsonWriter(Json& into) : into_(into) {}
  void text(const char* key, const std::string& v) { into_[key] = v; }
  void number(const char* key, double v) { into_[key] = v; }
  void count(const char* key, std::int64_t v) { into_[key] = v; }
  /// NaN, unknown, is null; so are the next ones'.
  void ratio(const char* key, double v) { into_[key] = std::isnan(v) ? Json() : Json(v); }
  /// A figure of `count` values: of none it is null.
  void of_some(const char* key, double v, std::int64_t count) { into_[key] = count == 0 ? Json() : Json(v); }
  void added_of_some(const char* key, double v, std::int64_t count) { of_some(key, v, count); }
  void digest(const char* key, std::uint64_t v) { into_[key] = digest_text(v); }
  template <typename Tag>
  void quantity(const char* key, Quantity<Tag> v) {
    ratio(key, v.value());
  }
  template <typename Tag>
  void added_quantity(const char* key, Quantity<Tag> v) {
    quantity(key, v);
  }
  void added_text(const char* key, const std::string& v) { text(key, v); }
  void seed(const char* key, std::uint64_t v) { into_[key] = v; }
  /// Milliseconds; an absent objective has no key.
  void objective(const char* key, const std::optional<Span>& v) {
    if (v) into_[key] = v->millis();
  }
  void if_set(const char* key, bool v) {
    if (v) into_[key] = true;
  }
  template <typename F>
  void group(const char* key, F&& f) {
    Json inner = Json::object();
    JsonWriter writer(inner);
    f(writer);
    into_[key] = std::move(inner);
  }
  template <typename F>
  void added_group(const char* key, F&& f) {
    group(key, f);
  }
  void added_number(const char* key, double v) { number(key, v); }
  void added_count(const char* key, std::int64_t v) { count(key, v); }

 private:
  Json& into_;
};

/// Fills the visited values from an object; the first problem found is kept as "key a.b must be ...".
class JsonReader {
 public:
  JsonReader(const Json& from, std::string path, std::string& problem)
      : from_(from), path_(std::move(path)), problem_(problem) {}

  void text(const char* key, std::string& v) {
    if (const Json* j = find(key, true))
      j->is_string() ? static_cast<void>(v = j->get<std::string>()) : wrong(key, "a string");
  }
  void number(const char* key, double& v) { number(key, v, true); }
  void count(const char* key, std::int64_t& v) { count(key, v, true); }
  void ratio(const char* key, double& v) { ratio(key, v, true); }
  void of_some(const char* key, double& v, std::int64_t) { of_some(key, v, true); }
  void added_of_some(const char* key, double& v, std::int64_t) { of_some(key, v, false); }
  /// Keys added after the first version may be absent from older files.
  void added_number(const char* key, double& v) { number(key, v, false); }
  void added_count(const char* key, std::int64_t& v) { count(key, v, false); }
  void digest(const char* key, std::uint64_t& v) {
    const Json* j = find(key, true);
    if (j == nullptr) return;
    if (!j->is_string()) return wrong(key, "a string of 16 hexadecimal digits");
    const auto& s = j->get_ref<const std::string&>();
    const auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), v, 16);
    if (s.size() != 16 || code != std::errc() || end != s.data() + s.size()) {
      wrong(key, "a string of 16 hexadecimal digits");
    }
  }
  template <typename Tag>
  void quantity(const char* key, Quantity<Tag>& v) {
    quantity(key, v, true);
  }
  template <typename Tag>
  void added_quantity(const char* key, Quantity<Tag>& v) {
    quantity(key, v, false);
  }
  void added_text(const char* key, std::string& v) {
    if (find(key, false) != nullptr) text(key, v);
  }
  void flag(const char* key, bool& v) {
    const Json* j = find(key, true);
    if (j == nullptr) return;
    if (!j->is_boolean()) return wrong(key, "true or false");
    v = j->get<bool>();
  }
  void seed(const char* key, std::uint64_t& v) {
    const Json* j = find(key, true);
    if (j == nullptr) return;
    if (!j->is_number_unsigned()) return wrong(key, "a whole number >= 0");
    v = j->get<std::uint64_t>();
  }
  void objective(const char* key, std::optional<Span>& v) {
    const Json* j = find(key, false);
    if (j == nullptr) return;
    const double ms = j->is_number() ? j->get<double>() : -1.0;
    if (!(ms > 0.0 && ms <= 1e12)) return wrong(key, "milliseconds in (0, 1e12]");
    v = Span(std::llround(ms * 1e6));
  }
  void if_set(const char* key, bool& v) {
    const Json* j = find(key, false);
    if (j == nullptr) return;
    if (*j != true) return wrong(key, "true, or absent");
    v = true;
  }
  template <typename F>
  void group(const char* key, F&& f) {
    group(key, f, true);
  }
  template <typename F>
  void added_group(const char* key, F&& f) {
    group(key, f, false);
  }

 private:
  template <typename Tag>
  void quantity(const char* key, Quantity<Tag>& v, bool required) {
    double raw = v.value();
    ratio(key, raw, required);
    v = Quantity<Tag>(raw);
  }
  void ratio(const char* key, double& v, bool required) {
    const Json* j = find(key, required);
    if (j == nullptr) return;
    if (j->is_null()) return static_cast<void>(v = std::numeric_limits<double>::quiet_NaN());
    number(key, v, required);
  }
  /// Null leaves what is there: the count says so.
  void of_some(const char* key, double& v, bool required) {
    const Json* j = find(key, required);
    if (j != nullptr && !j->is_null()) number(key, v, required);
  }
  template <typename F>
  void group(const char* key, F&& f, bool required) {
    const Json* j = find(key, required);
    if (j == nullptr) return;
    if (!j->is_object()) return wrong(key, "an object");
    JsonReader reader(*j, path_ + key + ".", problem_);
    f(reader);
  }
  const Json* find(const char* key, bool required) {
    const auto it = from_.find(key);
    if (it != from_.end()) return &*it;
    if (required && problem_.empty()) problem_ = fmt::format("key {}{} is missing", path_, key);
    return nullptr;
  }
  void number(const char* key, double& v, bool required) {
    const Json* j = find(key, required);
    if (j == nullptr) return;
    if (!j->is_number()) return wrong(key, "a number");
    v = j->get<double>();
    if (!std::isfinite(v)) wrong(key, "a finite number");
  }
  void count(const char* key, std::int64_t& v, bool required) {
    const Json* j = find(key, required);
    if (j == nullptr) return;
    if (!j->is_number_integer() || (j->is_number_unsigned() && j->get<std::uint64_t>() > (std::uint64_t{1} << 62U)) ||
        (v = j->get<std::int64_t>()) < 0) {
      wrong(key, "a whole number >= 0");
    }
  }
  void wrong(const char* key, const char* right) {
    if (problem_.empty()) problem_ = fmt::format("key {}{} must be {}", path_, key, right);
  }

  const Json& from_;
  std::string path_;
  std::string& problem_;
};

}  // namespace wattle::journal
