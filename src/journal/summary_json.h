#pragma once
// RunSummary <-> JSON, in the key names that `wattle sim --json` promises (keys are added, never renamed).
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"
#include "journal/summary.h"

namespace wattle::journal {

/// One element of `runs`. Keys in the documented order.
/// Without its name.
[[nodiscard]] nlohmann::ordered_json to_json(const UsageRow& row, bool of_requests);
[[nodiscard]] nlohmann::ordered_json to_json(const RunSummary& summary);
/// Errors name `where` and the key. Unknown keys are tolerated: a newer version may have added some.
[[nodiscard]] Result<RunSummary> summary_from_json(const nlohmann::ordered_json& json, const std::string& where);

[[nodiscard]] nlohmann::ordered_json to_json(const RunCurves& curves);
[[nodiscard]] Result<RunCurves> curves_from_json(const nlohmann::ordered_json& json, const std::string& where);

}  // namespace wattle::journal
