// WattTime v3: {"data": [{"point_time", "value"}], "meta": {...}}. The unit is in meta and decides everything: the free
// signal-index endpoint answers in the same shape with a percentile.
#include <fmt/core.h>

#include "feeds/sources/parsers.h"

namespace wattle::feeds {

namespace {
Result<double> grams_in(const JsonAt& meta) {
  const auto units = meta.text("units");
  if (!units) return std::unexpected(units.error());
  if (*units == "lbs_co2_per_mwh") return kGramsPerKwhInLbsPerMwh;
  if (*units == "g_co2_per_kwh") return 1.0;
  if (*units == "percentile") {
    return bad_input(meta.where() + ".units",
                     "is 'percentile': a rank from 0 to 100 within the region, no intensity; ask for /v3/forecast or "
                     "/v3/historical");
  }
  return bad_input(meta.where() + ".units", fmt::format("is '{}'; it must be lbs_co2_per_mwh", units->substr(0, 40)));
}

Result<IntensityKind> kind_of(const JsonAt& meta) {
  const auto signal = meta.text("signal_type");
  if (!signal) return std::unexpected(signal.error());
  if (*signal == "co2_moer") return IntensityKind::Marginal;
  if (*signal == "co2_aoer") return IntensityKind::Average;
  return bad_input(meta.where() + ".signal_type",
                   fmt::format("is '{}'; it must be co2_moer or co2_aoer", signal->substr(0, 40)));
}

/// /v3/forecast/historical lists whole forecasts; the newest one applies.
Result<JsonAt> newest_forecast(const std::vector<JsonAt>& made, FeedBuilder& builder) {
  const JsonAt* newest = nullptr;
  Instant when;
  for (const JsonAt& one : made) {
    const auto generated = one.time("generated_at");
    if (!generated) return std::unexpected(generated.error());
    if (newest == nullptr || *generated > when) {
      newest = &one;
      when = *generated;
    }
  }
  builder.issued(when);
  return newest->member("forecast");
}
}  // namespace

Result<std::string> watttime_token(std::string_view json, const std::string& name) {
  const auto document = parse_json(json, name);
  if (!document) return std::unexpected(document.error());
  const auto token = JsonAt(*document, name).text("token");
  if (token && token->empty()) return bad_input(name + ".token", "is empty");
  return token;
}

Result<Feed> parse_watttime(const Query& query, const JsonAt& answer, const std::string& name) {
  const auto meta = answer.member("meta");
  if (!meta) return std::unexpected(meta.error());
  const auto grams = grams_in(*meta);
  if (!grams) return std::unexpected(grams.error());
  const auto kind = kind_of(*meta);
  if (!kind) return std::unexpected(kind.error());
  const auto region = meta->text("region");
  if (!region) return std::unexpected(region.error());
  if (!query.zone.empty() && *region != query.zone) {
    return meta->bad(fmt::format("answers for region '{}', asked was '{}'", *region, query.zone));
  }
  FeedBuilder builder({name_of(Source::WattTime), *region, *kind, EmissionScope::Direct});
  const bool forecast = meta->has("generated_at");
  if (forecast) {
    const auto issued = meta->time("generated_at");
    if (!issued) return std::unexpected(issued.error());
    builder.issued(*issued);
  }
  if (meta->has("data_point_period_seconds")) {
    const auto period = meta->number("data_point_period_seconds");
    if (!period) return std::unexpected(period.error());
    if (!*period || !(**period >= 1.0 && **period <= 31.0 * 86'400.0)) {
      return meta->bad("data_point_period_seconds must lie within 1 s and 31 days");
    }
    builder.declare_step(Span::from_seconds(**period));
  }
  const auto data = answer.member("data");
  if (!data) return std::unexpected(data.error());
  auto rows = data->elements();
  if (!rows) return std::unexpected(rows.error());
  const bool nested = !rows->empty() && rows->front().has("forecast");
  if (nested) {
    const auto newest = newest_forecast(*rows, builder);
    if (!newest) return std::unexpected(newest.error());
    rows = newest->elements();
    if (!rows) return std::unexpected(rows.error());
  }
  for (const JsonAt& row : *rows) {
    const auto from = row.time("point_time");
    if (!from) return std::unexpected(from.error());
    const auto value = row.number("value");
    if (!value) return std::unexpected(value.error());
    Reading reading{.from = *from,
                    .value = std::nullopt,
                    .estimated = row.flag("imputed_data_used"),
                    .forecast = forecast || nested};
    if (*value) reading.value = GramsPerKwh(**value * *grams);
    builder.add(reading);
  }
  return std::move(builder).build(name);
}

}  // namespace wattle::feeds
