#pragma once
// A planner's records for the gateway's journal: its plans and its engines' phases. Pure, except that it stores texts.
#include <expected>
#include <optional>
#include <string_view>
#include <vector>

#include "journal/record.h"
#include "net/openai.h"

namespace wattle::gateway {

/// A decision, or a complete plan (kind Plan).
struct PlannerRecord {
  journal::DecisionRecord decision;
  std::optional<Plan> plan = std::nullopt;
  const char* flaw = nullptr;  ///< the plan's flaw
};

/// {"records": [{"kind": "scaling", "age_ms", "mode", "gpus", "reason"},
/// {"kind": "phase", "age_ms", "mode", "worker", "phase", "reason"},
/// {"kind": "plan", "age_ms", "mode", "gpus", "reason", "now_ns", "plan"}]}
/// `plan`: as journal::plan_json writes it, with "sound"; its times are on the planner's clock, which `now_ns` states.
/// Ages are relative to `now`, so that the two clocks need not agree. All records are accepted, or none.
[[nodiscard]] std::expected<std::vector<PlannerRecord>, net::ApiError> read_planner_records(std::string_view body,
                                                                                            Instant now);

}  // namespace wattle::gateway
