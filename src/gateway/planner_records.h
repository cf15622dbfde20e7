#pragma once
// What a planner tells the gateway's journal: its plans and its engines' phases. Pure, but for the texts it keeps.
#include <expected>
#include <optional>
#include <string_view>
#include <vector>

#include "journal/record.h"
#include "net/openai.h"

namespace wattle::gateway {

/// A decision, or a plan (kind Plan) with all of it.
struct PlannerRecord {
  journal::DecisionRecord decision;
  std::optional<Plan> plan = std::nullopt;
  const char* flaw = nullptr;  ///< of the plan
};

/// {"records": [{"kind": "scaling", "age_ms", "mode", "gpus", "reason"},
///              {"kind": "phase", "age_ms", "mode", "worker", "phase", "reason"},
///              {"kind": "plan", "age_ms", "mode", "gpus", "reason", "now_ns", "plan"}]}
/// `plan` as journal::plan_json writes it, with "sound"; `now_ns` is the planner's clock, on which the plan's times
/// are. Ages say how long before `now` it was: the two clocks need not agree. All of it is taken, or none.
[[nodiscard]] std::expected<std::vector<PlannerRecord>, net::ApiError> read_planner_records(std::string_view body,
                                                                                            Instant now);

}  // namespace wattle::gateway
