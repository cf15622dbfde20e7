// PJM Data Miner 2, fivemin_marginal_emissions and hourly_...: {"items": [{"datetime_beginning_utc", "pnode_id",
// "marginal_co2_rate"}], "totalRows"} in lbs/MWh. Local times (_ept) are not read: an hour of each autumn has two.
#include <fmt/core.h>

#include "feeds/sources/parsers.h"

namespace wattle::feeds {

Result<Feed> parse_pjm(const Query& query, const JsonAt& answer, const std::string& name) {
  const auto items = answer.member("items");
  if (!items) return std::unexpected(items.error());
  const auto rows = items->elements();
  if (!rows) return std::unexpected(rows.error());
  FeedBuilder builder({name_of(Source::Pjm), query.zone, IntensityKind::Marginal, EmissionScope::Direct});
  std::string node = query.zone;
  for (const JsonAt& row : *rows) {
    const auto id = row.number("pnode_id");
    if (!id) return std::unexpected(id.error());
    const std::string here = *id ? fmt::format("{:.0f}", **id) : "";
    if (node.empty()) node = here;
    if (here != node) {
      if (!query.zone.empty()) continue;
      return row.bad(fmt::format("is of node {}, the rows before were of {}; choose one node", here, node));
    }
    if (row.has("datetime_beginning_ept") && !row.has("datetime_beginning_utc")) {
      return row.bad("has Eastern time only, which repeats an hour each autumn; ask for datetime_beginning_utc");
    }
    const auto from = row.utc_time("datetime_beginning_utc");
    if (!from) return std::unexpected(from.error());
    const auto rate = row.number("marginal_co2_rate");
    if (!rate) return std::unexpected(rate.error());
    Reading reading{.from = *from, .value = std::nullopt};
    if (*rate) reading.value = GramsPerKwh(**rate * kGramsPerKwhInLbsPerMwh);
    builder.add(reading);
  }
  builder.label().zone = node;
  if (answer.has("totalRows")) {
    const auto total = answer.number("totalRows");
    if (!total) return std::unexpected(total.error());
    if (*total && **total > static_cast<double>(rows->size())) {
      builder.warn(fmt::format("{} of {:.0f} rows: ask for the rest (startRow)", rows->size(), **total));
    }
  }
  return std::move(builder).build(name);
}

}  // namespace wattle::feeds
