#pragma once
// How an engine schedules and stores, as flags of a process: what plays it (`wattle mock-engine`) and who believes it
// (agent, gateway). From the records of a scenario's [engine], so that no key can be left out.
#include <string>
#include <vector>

#include "base/error.h"
#include "config/option.h"
#include "engine/options.h"
#include "model/telemetry_source.h"

namespace wattle::config {

/// "max_num_seqs" -> "--max-num-seqs".
[[nodiscard]] std::string engine_flag(const OptionSpec& option);
/// A value as a flag takes it: text without quotes.
[[nodiscard]] std::string flag_text(const Value& value);
/// Every option that has a value, or none where its default is one, as FLAG VALUE pairs.
[[nodiscard]] std::vector<std::string> engine_arguments(const engine::EngineOptions& options);
/// What a mock engine's --step-reports has to be so that it is known by no more than that.
[[nodiscard]] const char* step_reports_of(TelemetrySource source);
/// Sets it from a flag's value. Errors: another type, or out of bounds.
[[nodiscard]] Result<void> set_from_flag(const Option<engine::EngineOptions>& option, const std::string& text,
                                         engine::EngineOptions& to);

}  // namespace wattle::config
