#pragma once
// The rate of a trace, scaled to what a fleet can carry.
#include <vector>

#include "base/error.h"
#include "workload/options.h"

namespace wattle::workload {

/// Scales time so that the highest rate of any whole options.rate_window is options.peak_rate_per_s, then leaves out
/// rows so that the lowest is options.trough_rate_per_s (none with 0) and those between keep their order: throttLL'eM
/// scales the Azure trace to each engine's maximum load, and for autoscaling to [0.75, 7.5] requests per second "by
/// applying different scaling factors to different areas" (Section V-D2). The first full window counts from the first
/// instant; what follows the last full one is treated like it. Deterministic. Errors: shorter than one window; a
/// trough above the scaled trace's own, or above the peak.
[[nodiscard]] Result<std::vector<TraceRow>> reshape(std::vector<TraceRow> rows, const WorkloadOptions& options);

}  // namespace wattle::workload
