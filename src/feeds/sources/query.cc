#include "feeds/sources/query.h"

#include <array>

namespace wattle::feeds {

namespace {
struct Entry {
  Source source;
  const char* name;
  const char* key_variable;
};
constexpr std::array kSources = {
    Entry{Source::ElectricityMaps, "electricity-maps", "ELECTRICITY_MAPS_TOKEN"},
    Entry{Source::WattTime, "watttime", "WATTTIME_CREDENTIALS"},
    Entry{Source::Pjm, "pjm", "PJM_SUBSCRIPTION_KEY"},
    Entry{Source::UkCarbonIntensity, "uk", nullptr},
    Entry{Source::CarbonAware, "carbon-aware", nullptr},
};
}  // namespace

const char* name_of(Source source) {
  for (const Entry& entry : kSources) {
    if (entry.source == source) return entry.name;
  }
  return "?";
}

std::optional<Source> source_named(std::string_view name) {
  for (const Entry& entry : kSources) {
    if (name == entry.name) return entry.source;
  }
  return std::nullopt;
}

const char* key_variable(Source source) {
  for (const Entry& entry : kSources) {
    if (entry.source == source) return entry.key_variable;
  }
  return nullptr;
}

}  // namespace wattle::feeds
