// Green Software Foundation, Carbon Aware SDK Web API, in g/kWh. It does not state whether its source is average or
// marginal; the configuration does (Query::kind).
#include <fmt/core.h>

#include "feeds/sources/parsers.h"

namespace wattle::feeds {

namespace {
/// .NET's "[d.]hh:mm:ss", or a number of minutes.
std::optional<Span> duration_of(const JsonAt& row) {
  const std::string text = row.text_or_none("duration");
  int days = 0;
  int hours = 0;
  int minutes = 0;
  int seconds = 0;
  int used = 0;
  const auto whole = [&] { return used == static_cast<int>(text.size()); };
  if (text.size() <= 16 && std::sscanf(text.c_str(), "%2d:%2d:%2d%n", &hours, &minutes, &seconds, &used) == 3 &&
      whole()) {
    return Span::s(hours * 3600 + minutes * 60 + seconds);
  }
  if (text.size() <= 16 &&
      std::sscanf(text.c_str(), "%2d.%2d:%2d:%2d%n", &days, &hours, &minutes, &seconds, &used) == 4 && whole()) {
    return Span::s(days * 86'400 + hours * 3600 + minutes * 60 + seconds);
  }
  if (!row.has("duration")) return std::nullopt;
  const auto number = row.number("duration");
  if (!number || !*number || !(**number > 0.0 && **number <= 31.0 * 1440.0)) return std::nullopt;
  return Span::from_seconds(**number * 60.0);
}

Result<void> add(FeedBuilder& builder, const JsonAt& row, const char* time, const char* value, bool forecast) {
  const auto from = row.time(time);
  if (!from) return std::unexpected(from.error());
  const auto rating = row.number(value);
  if (!rating) return std::unexpected(rating.error());
  Reading reading{.from = *from, .value = std::nullopt, .forecast = forecast};
  if (*rating) reading.value = GramsPerKwh(**rating);
  builder.add(reading);
  if (const auto step = duration_of(row); step && *step > Span()) builder.declare_step(*step);
  return {};
}

/// A response may hold several locations only if the requested one is among them.
bool of_another_place(const Query& query, const JsonAt& row) {
  const std::string place = row.text_or_none("location");
  return !query.zone.empty() && !place.empty() && place != query.zone;
}
}  // namespace

Result<Feed> parse_carbon_aware(const Query& query, const JsonAt& answer, const std::string& name) {
  FeedBuilder builder({name_of(Source::CarbonAware), query.zone, query.kind, EmissionScope::Unstated});
  if (answer.has("carbonIntensity")) {  // /emissions/average-carbon-intensity
    const auto to = answer.time("endTime");
    if (!to) return std::unexpected(to.error());
    const auto from = answer.time("startTime");
    if (!from) return std::unexpected(from.error());
    if (of_another_place(query, answer)) return answer.bad("is of another location than asked for");
    if (auto ok = add(builder, answer, "startTime", "carbonIntensity", false); !ok) return std::unexpected(ok.error());
    builder.declare_step(*to - *from);
    return std::move(builder).build(name);
  }
  const auto rows = answer.elements();
  if (!rows) return std::unexpected(rows.error());
  std::int64_t elsewhere = 0;
  for (const JsonAt& row : *rows) {
    if (of_another_place(query, row)) {
      ++elsewhere;
      continue;
    }
    if (!row.has("forecastData")) {
      if (auto ok = add(builder, row, "time", "rating", false); !ok) return std::unexpected(ok.error());
      continue;
    }
    const auto issued = row.time("generatedAt");
    if (!issued) return std::unexpected(issued.error());
    builder.issued(*issued);
    const auto data = row.member("forecastData");
    if (!data) return std::unexpected(data.error());
    const auto points = data->elements();
    if (!points) return std::unexpected(points.error());
    for (const JsonAt& point : *points) {
      if (auto ok = add(builder, point, "timestamp", "value", true); !ok) return std::unexpected(ok.error());
    }
  }
  if (elsewhere > 0) builder.warn(fmt::format("{} rows of other locations left out", elsewhere));
  return std::move(builder).build(name);
}

}  // namespace wattle::feeds
