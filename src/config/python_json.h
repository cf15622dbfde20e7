#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace wattle::config {

/// JSON as Python's json module writes and reads it: with Infinity, -Infinity and NaN, which become null. Discarded
/// (nlohmann::json::is_discarded) if it is no JSON otherwise.
[[nodiscard]] nlohmann::json parse_python_json(std::string_view text);

}  // namespace wattle::config
