#pragma once
// More, or fewer, requests in the same time: how a trace of one cluster loads another of a different size.
#include <cstdint>
#include <memory>

#include "units/time.h"

namespace wattle::workload {

class RequestSource;  // source.h, which makes copies, too

/// Every request of `from` comes `copies` times on average (below 1: some are left out, WorkloadStats::thinned), each
/// copy after the first up to `spread` later, so that the rate keeps its shape over longer times and arrivals their
/// burstiness. Memory: the copies of one spread. copies > 0.
[[nodiscard]] std::unique_ptr<RequestSource> with_copies(std::unique_ptr<RequestSource> from, double copies,
                                                         Span spread, std::uint64_t seed);

}  // namespace wattle::workload
