#pragma once
// A plan as it is read back from what journal::plan_json wrote: from a journal, a planner or another controller.
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/plan.h"
#include "units/time.h"

namespace wattle::journal {

/// Instances (shape, count, pool, node), steps (kind, from, to, pool, node, serves_on), weights (class, pool, weight),
/// clocks (pool, least_mhz, most_mhz), given, passed, levels and problem; none of them but the first is needed. Times
/// are `later` than written: on the reader's clock. Reasons and names are kept_text. Errors: bad input, with the key.
[[nodiscard]] Result<Plan> plan_from_json(std::string_view text, Span later = {});

/// All its times `later`.
void put_later(Plan& plan, Span later);

/// A copy that outlives every record and plan, as a static text does: for reasons said in other processes. Bounded:
/// beyond a thousand different ones, the same text for all. Any thread.
[[nodiscard]] const char* kept_text(const std::string& text);

}  // namespace wattle::journal
