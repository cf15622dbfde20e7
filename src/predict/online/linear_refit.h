#pragma once
// EcoPred's linear form, fitted again to what is served.
#include <vector>

#include "predict/linear_fit.h"
#include "predict/online/online_latency.h"

namespace wattle::predict {

/// fit_linear on the levelled profile and the served steps, with the offline fit's tile borders (served batches are too
/// unevenly spread to find borders in).
[[nodiscard]] LatencyRefit linear_refit(std::vector<StepSample> profile, std::shared_ptr<const LinearLatency> offline,
                                        bool published = false);

}  // namespace wattle::predict
