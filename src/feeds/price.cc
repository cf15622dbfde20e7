#include "feeds/price.h"

namespace wattle::feeds {

namespace {
/// CAISO's bid cap is 1,000 to 2,000 $/MWh and its floor -150; congestion adds to both.
constexpr double kHighest = 10'000.0;
}  // namespace

Result<PriceSeries> parse_caiso_price(std::string_view text, const std::string& name,
                                      std::optional<std::int64_t> origin_ns) {
  return carbon::parse_series<UsdPerMwh>({"INTERVALSTARTTIME_GMT", "VALUE", 1.0, -kHighest, kHighest}, text, name,
                                         origin_ns);
}

}  // namespace wattle::feeds
