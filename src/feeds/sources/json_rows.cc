#include "feeds/sources/json_rows.h"

#include <fmt/core.h>

#include "base/timestamp.h"

namespace wattle::feeds {

namespace {
constexpr int kDeepest = 32;                ///< no source's answer has more than six levels
constexpr std::size_t kMostRows = 100'000;  ///< twice the most that is asked for

/// Printable and short, whatever the other side sent.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 120)) out += (c >= ' ' && c < '\x7f') ? c : '?';
  if (text.size() > 120) out += "...";
  return out;
}

/// The providers' error formats: {"error": "..."}, {"error": {"message": "..."}}, {"status": "error", "message":
/// "..."}.
std::string complaint(const nlohmann::json& answer) {
  if (!answer.is_object()) return "";
  const auto error = answer.find("error");
  const auto message = answer.find("message");
  const std::string said = message != answer.end() && message->is_string() ? message->get<std::string>() : "";
  if (error != answer.end()) {
    if (error->is_object() && error->contains("message") && (*error)["message"].is_string()) {
      return (*error)["message"].get<std::string>();
    }
    if (!said.empty()) return said;
    return error->is_string() ? error->get<std::string>() : error->dump();
  }
  const auto status = answer.find("status");
  return status != answer.end() && status->is_string() && *status == "error" ? (said.empty() ? "no message" : said)
                                                                             : "";
}
}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, const std::string& name) {
  bool too_deep = false;
  const auto shallow = [&too_deep](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  nlohmann::json answer = nlohmann::json::parse(text, shallow, false);
  if (too_deep) return bad_input(name, fmt::format("is nested deeper than {} levels", kDeepest));
  if (answer.is_discarded()) return bad_input(name, fmt::format("is not JSON; it begins with '{}'", shown(text)));
  if (const std::string said = complaint(answer); !said.empty()) {
    return bad_input(name, fmt::format("is an error message of the source: {}", shown(said)));
  }
  return answer;
}

Result<JsonAt> JsonAt::member(const char* key) const {
  if (!value_->is_object()) return bad(fmt::format("must be an object with '{}'", key));
  const auto found = value_->find(key);
  if (found == value_->end()) return bad(fmt::format("has no '{}'", key));
  return JsonAt(*found, fmt::format("{}.{}", where_, key));
}

Result<std::vector<JsonAt>> JsonAt::elements() const {
  if (!value_->is_array()) return bad("must be a list");
  if (value_->size() > kMostRows) return bad(fmt::format("has {} rows, more than {}", value_->size(), kMostRows));
  std::vector<JsonAt> out;
  out.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) out.emplace_back((*value_)[i], fmt::format("{}[{}]", where_, i));
  return out;
}

Result<std::string> JsonAt::text(const char* key) const {
  const auto found = member(key);
  if (!found) return std::unexpected(found.error());
  if (!found->value_->is_string()) return found->bad("must be text");
  return found->value_->get<std::string>();
}

std::string JsonAt::text_or_none(const char* key) const {
  if (!has(key)) return "";
  const auto& value = (*value_)[key];
  return value.is_string() ? value.get<std::string>() : "";
}

Result<std::optional<double>> JsonAt::number(const char* key) const {
  const auto found = member(key);
  if (!found) return std::unexpected(found.error());
  if (found->value_->is_null()) return std::nullopt;
  if (!found->value_->is_number()) return found->bad("must be a number or null");
  return found->value_->get<double>();
}

Result<Instant> JsonAt::time(const char* key) const {
  auto when = utc_time(key);
  if (when && !states_zone(text_or_none(key))) {
    return bad_input(fmt::format("{}.{}", where_, key),
                     fmt::format("is '{}', without its zone; it must end with Z or an offset such as +01:00",
                                 shown(text_or_none(key))));
  }
  return when;
}

Result<Instant> JsonAt::utc_time(const char* key) const {
  const auto said = text(key);
  if (!said) return std::unexpected(said.error());
  const auto ns = parse_timestamp(*said);
  if (!ns) {
    return bad_input(fmt::format("{}.{}", where_, key),
                     fmt::format("is '{}'; it must be a time like 2024-01-01T00:00:00Z", shown(*said)));
  }
  return Instant(*ns);
}

bool JsonAt::flag(const char* key) const {
  if (!has(key)) return false;
  const auto& value = (*value_)[key];
  return value.is_boolean() && value.get<bool>();
}

}  // namespace wattle::feeds
