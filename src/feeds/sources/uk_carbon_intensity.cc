// UK Carbon Intensity (National Energy System Operator): half-hours with a forecast and, once measured, an actual.
// National: {"data": [{from, to, intensity}]}. One region: {"data": {regionid, data: [...]}}, or that in a list.
#include <fmt/core.h>

#include "feeds/sources/parsers.h"

namespace wattle::feeds {

namespace {
Result<void> add(FeedBuilder& builder, const JsonAt& row) {
  if (row.has("regions")) return row.bad("lists every region; ask for one (/regional/.../regionid/N)");
  const auto from = row.time("from");
  if (!from) return std::unexpected(from.error());
  const auto to = row.time("to");
  if (!to) return std::unexpected(to.error());
  const auto intensity = row.member("intensity");
  if (!intensity) return std::unexpected(intensity.error());
  const auto said = intensity->number("forecast");
  if (!said) return std::unexpected(said.error());
  std::optional<double> actual;
  if (intensity->has("actual")) {
    const auto measured = intensity->number("actual");
    if (!measured) return std::unexpected(measured.error());
    actual = *measured;
  }
  const std::optional<double> best = actual ? actual : *said;
  Reading reading{.from = *from, .value = std::nullopt, .forecast = !actual};
  if (best) reading.value = GramsPerKwh(*best);
  builder.add(reading);
  builder.declare_step(*to - *from);
  return {};
}
}  // namespace

Result<Feed> parse_uk(const Query& query, const JsonAt& answer, const std::string& name) {
  FeedBuilder builder({name_of(Source::UkCarbonIntensity), query.zone.empty() ? "GB" : query.zone,
                       IntensityKind::Average, EmissionScope::Direct});
  auto data = answer.member("data");
  if (!data) return std::unexpected(data.error());
  if (data->is_array()) {
    const auto regions = data->elements();
    if (!regions) return std::unexpected(regions.error());
    if (regions->size() == 1 && regions->front().has("data")) data = regions->front();
  }
  if (data->is_object()) {
    data = data->member("data");
    if (!data) return std::unexpected(data.error());
  }
  const auto rows = data->elements();
  if (!rows) return std::unexpected(rows.error());
  for (const JsonAt& row : *rows) {
    if (auto ok = add(builder, row); !ok) return std::unexpected(ok.error());
  }
  return std::move(builder).build(name);
}

}  // namespace wattle::feeds
