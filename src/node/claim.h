#pragma once
// What has been set on a GPU and is to be undone, on one line: in the state file, and to the guardian.
#include <string>

#include "base/error.h"
#include "node/gpu/gpu.h"

namespace wattle::node {

/// A UUID alone: its clock is locked. With the power limit that stood before ours:
[[nodiscard]] std::string claim_of_power(const std::string& uuid, Milliwatts before);

/// Takes the lock off, or sets that limit. Errors: there is no such GPU now; not such a line.
[[nodiscard]] Result<GpuStatus> undo(const GpuLibrary& library, const std::string& claim);

}  // namespace wattle::node
