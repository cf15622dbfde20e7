#pragma once
// What the ledger has booked, in Prometheus form.
#include <string>
#include <string_view>

#include "journal/summary.h"

namespace wattle::gateway {

/// A label's value as the text format wants it: backslash, quote and line feed escaped.
[[nodiscard]] std::string escaped_label(std::string_view value);

/// Energy (J), carbon (g) and cost (USD) of the fleet, of each tenant and of each class; `model`: the one served here.
/// A figure that is unknown because nobody metered it has no sample, never 0; the family's HELP and TYPE stay.
[[nodiscard]] std::string usage_metrics(const journal::Consumption& used, std::string_view model);

}  // namespace wattle::gateway
