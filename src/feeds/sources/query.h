#pragma once
// What may be asked of a public carbon API.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "feeds/feed.h"
#include "units/time.h"

namespace wattle::feeds {

enum class Source : std::uint8_t {
  ElectricityMaps,    ///< v3: average, zones
  WattTime,           ///< v3: marginal (co2_moer) or average (co2_aoer), regions
  Pjm,                ///< Data Miner 2, five-minute marginal rates by pricing node, after the fact
  UkCarbonIntensity,  ///< average, half-hourly, Great Britain
  CarbonAware,        ///< Green Software Foundation's SDK in front of any of them
};

/// "electricity-maps", "watttime", "pjm", "uk", "carbon-aware".
[[nodiscard]] const char* name_of(Source source);
[[nodiscard]] std::optional<Source> source_named(std::string_view name);
/// The environment variable that holds the source's key; null: it needs none.
[[nodiscard]] const char* key_variable(Source source);

enum class Wish : std::uint8_t { Latest, History, Forecast };

struct Query {
  Source source = Source::ElectricityMaps;
  Wish wish = Wish::Latest;
  std::string zone;                             ///< zone, region, node id, "GB" (or a region's number), or location
  IntensityKind kind = IntensityKind::Average;  ///< WattTime's signal; what the SDK was set up to serve
  EmissionScope scope = EmissionScope::Lifecycle;
  std::optional<Instant> from;  ///< since 1970 UTC
  std::optional<Instant> to;
  std::string base_url = "";  ///< instead of the provider's own; the SDK has no public one
};

}  // namespace wattle::feeds
