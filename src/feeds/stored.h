#pragma once
// Feeds in files: an answer of a source that was kept, or a CSV in one of the forms that grid data comes in.
#include <string>
#include <string_view>

#include "feeds/sources/query.h"

namespace wattle::feeds {

/// Names of the forms beside those of the sources, for messages.
inline constexpr const char* kCsvForms = "csv-direct, csv-lifecycle, csv-watttime, csv-eia, eia-mix";

[[nodiscard]] bool is_csv_form(std::string_view name);

/// "csv-direct": Electricity Maps' direct emissions; "csv-lifecycle": with the plants' life cycle; "csv-watttime": MOER
/// in lbs/MWh, or `column` in g/kWh; "csv-eia": the average that EIA's hourly files state; "eia-mix": the one of their
/// megawatts. Errors: another form; as parse_feed_csv.
[[nodiscard]] Result<Feed> parse_csv_form(std::string_view form, const std::string& zone, const std::string& column,
                                          std::string_view text, const std::string& name);

/// By a source's name, or a form's; "": a CSV whose column says what it is: "" as csv-direct, "MOER" as csv-watttime,
/// any other in g/kWh, of query.kind. `query` is what the answer was to; of the other CSVs its zone alone counts.
[[nodiscard]] Result<Feed> parse_stored(std::string_view form, const Query& query, const std::string& column,
                                        std::string_view text, const std::string& name);

}  // namespace wattle::feeds
