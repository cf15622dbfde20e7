#include "config/python_json.h"

#include <nlohmann/json.hpp>

namespace wattle::config {

nlohmann::json parse_python_json(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  bool quoted = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    std::size_t length = 1;
    if (quoted) {
      length = rest.front() == '\\' && rest.size() > 1 ? 2 : 1;
    } else {
      for (const std::string_view name : {"-Infinity", "Infinity", "NaN"}) {
        if (length == 1 && rest.starts_with(name)) length = name.size();
      }
    }
    if (rest.front() == '"') quoted = !quoted;
    plain += !quoted && length > 1 ? "null" : rest.substr(0, length);
    at += length;
  }
  return nlohmann::json::parse(plain, nullptr, false);
}

std::string text_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace wattle::config
