#pragma once
// Private to sources/: one function per source. Errors as parse_answer's.
#include <string>

#include "feeds/sources/json_rows.h"
#include "feeds/sources/query.h"

namespace wattle::feeds {

[[nodiscard]] Result<Feed> parse_electricity_maps(const Query& query, const JsonAt& answer, const std::string& name);
[[nodiscard]] Result<Feed> parse_watttime(const Query& query, const JsonAt& answer, const std::string& name);
[[nodiscard]] Result<Feed> parse_pjm(const Query& query, const JsonAt& answer, const std::string& name);
[[nodiscard]] Result<Feed> parse_uk(const Query& query, const JsonAt& answer, const std::string& name);
[[nodiscard]] Result<Feed> parse_carbon_aware(const Query& query, const JsonAt& answer, const std::string& name);

}  // namespace wattle::feeds
