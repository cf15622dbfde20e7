// Electricity Maps v3. Every response is one object, or a list of such objects, in which carbonIntensity may be null.
#include <fmt/core.h>

#include "feeds/sources/parsers.h"

namespace wattle::feeds {

namespace {
std::optional<Span> granularity(const std::string& said) {
  if (said == "5_minutes") return Span::s(300);
  if (said == "15_minutes") return Span::s(900);
  if (said == "30_minutes") return Span::s(1800);
  if (said == "hourly") return Span::s(3600);
  if (said == "daily") return Span::s(86'400);
  return std::nullopt;  // months and years have no fixed length
}

Result<void> add(FeedBuilder& builder, const JsonAt& row, bool forecast) {
  const auto from = row.time("datetime");
  if (!from) return std::unexpected(from.error());
  const auto value = row.number("carbonIntensity");
  if (!value) return std::unexpected(value.error());
  Reading reading{.from = *from, .value = std::nullopt, .estimated = row.flag("isEstimated"), .forecast = forecast};
  if (*value) reading.value = GramsPerKwh(**value);
  builder.add(reading);
  const std::string factor = row.text_or_none("emissionFactorType");
  if (!factor.empty()) {
    const auto scope = factor == "direct" ? EmissionScope::Direct : EmissionScope::Lifecycle;
    if (builder.label().scope != EmissionScope::Unstated && builder.label().scope != scope) {
      return row.bad("counts emissions otherwise than the rows before it (emissionFactorType)");
    }
    builder.label().scope = scope;
  }
  return {};
}
}  // namespace

Result<Feed> parse_electricity_maps(const Query& query, const JsonAt& answer, const std::string& name) {
  const auto zone = answer.text("zone");
  if (!zone) return std::unexpected(zone.error());
  // an unknown zone silently becomes that of the caller's address
  if (!query.zone.empty() && *zone != query.zone) {
    return answer.bad(fmt::format("answers for zone '{}', asked was '{}'", *zone, query.zone));
  }
  FeedBuilder builder({name_of(Source::ElectricityMaps), *zone, IntensityKind::Average, EmissionScope::Unstated});
  const char* list = answer.has("forecast") ? "forecast" : answer.has("history") ? "history" : "data";
  const bool forecast = answer.has("forecast");
  std::vector<JsonAt> rows;
  if (answer.has(list)) {
    const auto found = answer.member(list);
    if (!found) return std::unexpected(found.error());
    auto elements = found->elements();
    if (!elements) return std::unexpected(elements.error());
    rows = std::move(*elements);
  } else {
    rows.push_back(answer);
  }
  std::string step = answer.text_or_none("temporalGranularity");
  std::int64_t elsewhere = 0;
  for (const JsonAt& row : rows) {
    if (const std::string of = row.text_or_none("zone"); !of.empty() && of != *zone) {
      ++elsewhere;
      continue;
    }
    if (auto ok = add(builder, row, forecast); !ok) return std::unexpected(ok.error());
    if (step.empty()) step = row.text_or_none("temporalGranularity");
  }
  if (elsewhere > 0) builder.warn(fmt::format("{} rows of other zones left out", elsewhere));
  if (const auto said = granularity(step)) {
    builder.declare_step(*said);
  } else if (std::ssize(rows) - elsewhere == 1) {
    builder.declare_step(Span::s(3600));  // the API's own default
  }
  if (forecast && answer.has("updatedAt")) {
    const auto issued = answer.time("updatedAt");
    if (!issued) return std::unexpected(issued.error());
    builder.issued(*issued);
  }
  return std::move(builder).build(name);
}

}  // namespace wattle::feeds
