#pragma once
// The ledger's bookings in Prometheus format.
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "control/consumption.h"

namespace wattle::gateway {

/// A label's value in the text format: backslash, quote and line feed escaped.
[[nodiscard]] std::string escaped_label(std::string_view value);

/// Energy (J), carbon (g) and cost (USD) of the fleet, of the requests for each model, and of these by tenant and by
/// class. A value that is unknown because it was not metered has no sample, never 0; the family's HELP and TYPE remain.
[[nodiscard]] std::string usage_metrics(const journal::Consumption& used, std::span<const control::ModelUsage> models);

/// A site's carbon intensity at the moment; none: unknown.
struct SiteIntensity {
  std::string name;
  std::optional<GramsPerKwh> now;
};
[[nodiscard]] std::string intensity_metrics(std::span<const SiteIntensity> sites);

}  // namespace wattle::gateway
