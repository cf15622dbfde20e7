#pragma once
// timeseries.csv: one row per instance and sampling instant.
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "journal/record.h"

namespace wattle::journal {

[[nodiscard]] std::string_view timeseries_csv_header();
void append_sample_row(std::string& out, const Sample& sample);

/// Calls f for each row. Errors name file:line and column; rows of one instance must not go back in
/// time (those of several may be interleaved: what several agents sampled comes so). Unknown columns are ignored.
[[nodiscard]] Result<void> parse_timeseries(std::string_view text, const std::string& name,
                                            const std::function<void(const Sample&)>& f);

}  // namespace wattle::journal
