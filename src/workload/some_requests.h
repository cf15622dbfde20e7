#pragma once
// A run without a request says nothing: what has none is refused, wherever its requests come from.
#include <memory>

#include "base/error.h"
#include "workload/request_source.h"

namespace wattle::workload {

/// `from`, unless it has no request; reads its first. Errors: no_requests().
[[nodiscard]] Result<std::unique_ptr<RequestSource>> with_some(std::unique_ptr<RequestSource> from,
                                                               const WorkloadOptions& options);

/// The error for a source that ended, with these counts, before its first request: names the key that left none.
[[nodiscard]] Error no_requests(const WorkloadOptions& options, const WorkloadStats& stats);

}  // namespace wattle::workload
