#pragma once
// A workload cut in two: one half to set something by, the other to score it on.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "workload/source.h"

namespace wattle::workload {

enum class Half : std::uint8_t { First, Second };

struct HalfOfWorkload {
  std::unique_ptr<RequestSource> source;
  Span begins;  ///< its Instant 0 in the time of the whole
};

/// What arrives in one half of the time from Instant 0 to the last arrival, which belongs to the second; the second
/// begins at Instant 0, too. Drains `whole`, so it has to end. Errors: nothing arrives in that half.
[[nodiscard]] inline Result<HalfOfWorkload> half_of(RequestSource& whole, Half half) {
  std::vector<TraceRow> rows;
  while (const auto row = whole.next()) rows.push_back(*row);
  const Span middle = rows.empty() ? Span() : (rows.back().arrival - Instant()) / 2;
  std::vector<TraceRow> kept;
  for (TraceRow row : rows) {
    const bool first = row.arrival - Instant() < middle;
    if (first != (half == Half::First)) continue;
    if (!first) row.arrival = row.arrival - middle;
    kept.push_back(row);
  }
  if (kept.empty()) {
    return bad_input("workload", half == Half::First ? "no request arrives in the first half of its time; give more"
                                                     : "no request arrives in the second half of its time; give more");
  }
  return HalfOfWorkload{std::make_unique<ListSource>(std::move(kept), whole.stats()),
                        half == Half::First ? Span() : middle};
}

}  // namespace wattle::workload
