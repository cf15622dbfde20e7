#pragma once
// requests.csv: one row per request, those that had not left at the end last. Times are seconds since the run's origin,
// exact to the nanosecond.
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/outcome.h"

namespace wattle::journal {

[[nodiscard]] std::string_view requests_csv_header();
/// A cell is empty where there is no value: no first token, no instance.
void append_request_row(std::string& out, const Outcome& outcome);

/// Calls f for each row; `outcome.reason` is valid during the call only. Errors name file:line and column. Columns are
/// found by name, in any order; unknown ones are ignored.
[[nodiscard]] Result<void> parse_requests(std::string_view text, const std::string& name,
                                          const std::function<void(const Outcome&)>& f);

}  // namespace wattle::journal
