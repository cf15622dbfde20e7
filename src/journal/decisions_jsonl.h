#pragma once
// decisions.jsonl: one JSON object a line, decisions in the order they were taken.
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "journal/record.h"

namespace wattle::journal {

/// Appends text as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
void append_json_text(std::string& out, std::string_view text);

void append_decision_line(std::string& out, const DecisionRecord& record);

/// As a decision of kind "plan" whose value is the GPUs planned, with all of the plan under the key "plan".
void append_plan_line(std::string& out, const PlanRecord& record);

/// All of the plan, as the line has it under "plan".
[[nodiscard]] nlohmann::ordered_json plan_json(const Plan& plan);

/// Calls f for each line; `record.reason` is valid during the call only. Errors name file:line and key. Unknown keys
/// are ignored, blank lines accepted.
[[nodiscard]] Result<void> parse_decisions(std::string_view text, const std::string& name,
                                           const std::function<void(const DecisionRecord&)>& f);

}  // namespace wattle::journal
