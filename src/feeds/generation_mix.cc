#include "feeds/generation_mix.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/csv.h"
#include "base/timestamp.h"

namespace wattle::feeds {

namespace {
constexpr double kLargestMw = 2e6;  ///< more than any country generates
constexpr std::array<std::string_view, kFuels + 1> kColumns = {
    "datetime_utc", "wind_mw", "solar_mw", "hydro_mw", "oil_mw", "gas_mw", "coal_mw", "nuclear_mw", "other_mw"};

/// None if a source's power is missing, or nothing is generated. `drawing`: counts sources that draw power.
Result<std::optional<GramsPerKwh>> mix_of(const FuelFactors& factors, const CsvReader& csv, std::int64_t& drawing) {
  double all_mw = 0.0;
  double grams = 0.0;
  for (std::size_t fuel = 0; fuel < kFuels; ++fuel) {
    if (csv.field(fuel + 1).empty()) return std::nullopt;
    const auto mw = csv.number(fuel + 1, -kLargestMw, kLargestMw);
    if (!mw) return std::unexpected(mw.error());
    if (*mw < 0.0) ++drawing;
    all_mw += std::max(*mw, 0.0);
    grams += std::max(*mw, 0.0) * factors.grams_per_kwh[fuel];
  }
  if (all_mw <= 0.0) return std::nullopt;
  return GramsPerKwh(grams / all_mw);
}
}  // namespace

FuelFactors ipcc_lifecycle() { return {{11.0, 41.0, 24.0, 650.0, 490.0, 820.0, 12.0, 230.0}}; }

Result<Feed> parse_generation_mix(const FuelFactors& factors, FeedLabel label, std::string_view text,
                                  const std::string& name) {
  auto opened = CsvReader::open(text, name, kColumns);
  if (!opened) return std::unexpected(opened.error());
  CsvReader& csv = *opened;
  label.kind = IntensityKind::Average;
  label.scope = EmissionScope::Lifecycle;
  FeedBuilder builder(std::move(label));
  std::int64_t drawing = 0;
  while (true) {
    const auto more = csv.next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto time = parse_timestamp(csv.field(0));
    if (!time) return csv.bad_field(0, "it must be a time like 2024-01-01 00:00:00 (UTC), or with its offset");
    const auto mix = mix_of(factors, csv, drawing);
    if (!mix) return std::unexpected(mix.error());
    builder.add({.from = Instant(*time), .value = *mix});
  }
  if (drawing > 0)
    builder.warn(fmt::format("{} negative megawatts: such a source draws power, counted as none", drawing));
  return std::move(builder).build(name);
}

}  // namespace wattle::feeds
