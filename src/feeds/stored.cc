#include "feeds/stored.h"

#include <fmt/core.h>

#include <algorithm>

#include "feeds/generation_mix.h"
#include "feeds/sources/source.h"

namespace wattle::feeds {

bool is_csv_form(std::string_view name) {
  const auto forms = {"csv-direct", "csv-lifecycle", "csv-watttime", "csv-eia", "eia-mix"};
  return std::ranges::find(forms, name) != forms.end();
}

Result<Feed> parse_csv_form(std::string_view form, const std::string& zone, const std::string& column,
                            std::string_view text, const std::string& name) {
  FeedLabel label{std::string(form), zone, {}, {}};
  if (form == "eia-mix") return parse_generation_mix(ipcc_lifecycle(), std::move(label), text, name);
  if (form == "csv-eia") return parse_feed_csv(eia_average(), std::move(label), text, name);
  if (form == "csv-watttime") {
    const bool moer = column.empty() || column == "MOER" || column == "value";  // in the API's own unit
    return parse_feed_csv(moer ? watttime_moer() : watttime_grams(column), std::move(label), text, name);
  }
  if (form == "csv-direct") {
    label.scope = EmissionScope::Direct;
    return parse_feed_csv(electricity_maps_direct(), std::move(label), text, name);
  }
  if (form == "csv-lifecycle") {
    label.scope = EmissionScope::Lifecycle;
    return parse_feed_csv(electricity_maps_lifecycle(), std::move(label), text, name);
  }
  return bad_input(name, fmt::format("'{}' is neither a source nor one of {}", form, kCsvForms));
}

Result<Feed> parse_stored(std::string_view form, const Query& query, const std::string& column, std::string_view text,
                          const std::string& name) {
  if (source_named(form)) return parse_answer(query, text, name);
  if (form.empty() && !column.empty() && column != "MOER") {
    FeedLabel label{"csv", query.zone, query.kind, EmissionScope::Unstated};
    return parse_feed_csv(grams_column(column, query.kind), std::move(label), text, name);
  }
  if (form.empty()) return parse_csv_form(column.empty() ? "csv-direct" : "csv-watttime", query.zone, "", text, name);
  return parse_csv_form(form, query.zone, column, text, name);
}

}  // namespace wattle::feeds
