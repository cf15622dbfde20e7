#pragma once
// Refits EcoPred's linear form to served steps.
#include <vector>

#include "predict/linear_fit.h"
#include "predict/online/online_latency.h"

namespace wattle::predict {

/// fit_linear on the scaled profile (level_profile) and the served steps, with the offline fit's tile borders (served
/// batches are too unevenly distributed to detect borders).
[[nodiscard]] LatencyRefit linear_refit(std::vector<StepSample> profile, std::shared_ptr<const LinearLatency> offline,
                                        bool published = false);

}  // namespace wattle::predict
