#pragma once
// What a planner tells the gateway's journal: its plans and its engines' phases. Pure, but for the texts it keeps.
#include <expected>
#include <string_view>
#include <vector>

#include "journal/record.h"
#include "net/openai.h"

namespace wattle::gateway {

/// {"records": [{"kind": "scaling", "age_ms", "mode", "gpus", "reason"},
///              {"kind": "phase", "age_ms", "mode", "worker", "phase", "reason"}]}
/// Ages say how long before `now` it was: the two clocks need not agree. All of it is taken, or none.
[[nodiscard]] std::expected<std::vector<journal::DecisionRecord>, net::ApiError> read_planner_records(
    std::string_view body, Instant now);

}  // namespace wattle::gateway
