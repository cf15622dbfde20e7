#pragma once
// Average intensity from who generates: each source's power times what it emits per kWh, over all power.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "feeds/feed.h"

namespace wattle::feeds {

enum class Fuel : std::uint8_t { Wind, Solar, Hydro, Oil, Gas, Coal, Nuclear, Other };
inline constexpr std::size_t kFuels = 8;

struct FuelFactors {
  std::array<double, kFuels> grams_per_kwh{};  ///< by Fuel
};

/// Life-cycle medians of IPCC AR5 WG III, annex III, table A.III.2 (other = biomass; solar = rooftop), and for oil,
/// which is not in it, 650 (UK POST note 383). With these the intensities the EIA files carry come out to their last
/// digit.
[[nodiscard]] FuelFactors ipcc_lifecycle();

/// EIA hourly rows: "datetime_utc, wind_mw, solar_mw, hydro_mw, oil_mw, gas_mw, coal_mw, nuclear_mw, other_mw". A blank
/// row, or one without generation, is unknown. A source that draws power (pumped storage, solar at night) counts as
/// none, with a warning. Errors: where = "name:line".
[[nodiscard]] Result<Feed> parse_generation_mix(const FuelFactors& factors, FeedLabel label, std::string_view text,
                                                const std::string& name);

}  // namespace wattle::feeds
