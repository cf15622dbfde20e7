#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace wattle::config {

/// JSON as Python's json module writes and reads it: with Infinity, -Infinity and NaN, which become null. Discarded
/// (nlohmann::json::is_discarded) if it is no JSON otherwise.
[[nodiscard]] nlohmann::json parse_python_json(std::string_view text);

/// Text under a key; empty: none, or of another type.
[[nodiscard]] std::string text_of(const nlohmann::json& json, const char* key);

}  // namespace wattle::config
