#pragma once
// requests.csv: one row per request, those that had not left at the end last. Times are seconds since the run's origin,
// exact to the nanosecond.
#include <string>
#include <string_view>

#include "model/outcome.h"

namespace wattle::journal {

[[nodiscard]] std::string_view requests_csv_header();
/// A cell is empty where there is no value: no first token, no instance.
void append_request_row(std::string& out, const Outcome& outcome);

}  // namespace wattle::journal
