#pragma once
// Electricity prices against time. Their own type: a price is never taken for an intensity.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "carbon/series.h"

namespace wattle::feeds {

/// Wholesale price; negative when the grid pays for being relieved of power.
using carbon::PriceSeries;

/// CAISO OASIS rows: "INTERVALSTARTTIME_GMT,INTERVALENDTIME_GMT,VALUE" in $/MWh. Rows must ascend in equal steps.
/// Instant 0 is `origin_ns` (ns since 1970 UTC) or the first row. Errors: where = "name:line".
[[nodiscard]] Result<PriceSeries> parse_caiso_price(std::string_view text, const std::string& name,
                                                    std::optional<std::int64_t> origin_ns = std::nullopt);

}  // namespace wattle::feeds
