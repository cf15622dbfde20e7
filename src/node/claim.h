#pragma once
// What has been set on a GPU and must be undone, as one line: in the state file, and for the guardian.
#include <string>

#include "base/error.h"
#include "node/gpu/gpu.h"

namespace wattle::node {

/// A UUID alone means that the clock is locked. This adds the power limit that was in force before ours:
[[nodiscard]] std::string claim_of_power(const std::string& uuid, Milliwatts before);

/// Releases the lock, or restores that limit. Errors: the GPU does not exist; the line is invalid.
[[nodiscard]] Result<GpuStatus> undo(const GpuLibrary& library, const std::string& claim);

}  // namespace wattle::node
