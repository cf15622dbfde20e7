#pragma once
// Requests out of counts: how many arrived in each ten seconds, and how long they are on the whole (the Azure traces of
// May 2024, of which neither arrivals nor lengths of single requests are at hand).
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "workload/lengths.h"

namespace wattle::workload {

/// Requests in equal bins, the first of which begins at 0.
struct BinCounts {
  Span width;
  std::vector<std::int32_t> counts;
};

/// "Time,TIMESTAMP" rows: the time a bin is named by and the number of its requests, evenly spaced. Errors: a time that
/// is none, bins that are not evenly spaced, fewer than two, a count below 0.
[[nodiscard]] Result<BinCounts> parse_counts(std::string_view text, const std::string& name);

/// Rows "service,field,bin_lo,bin_hi,share": prompt ("ContextTokens") and output ("GeneratedTokens") lengths of a
/// service, drawn independently, even within a bin. Errors: no such service or field, shares that are not positive in
/// sum, bins that end before they begin.
[[nodiscard]] Result<std::unique_ptr<LengthSource>> histogram_lengths(std::string_view text, const std::string& name,
                                                                      std::string_view service, std::uint64_t seed);

}  // namespace wattle::workload
