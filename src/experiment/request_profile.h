#pragma once
// Predicts a whole request's latency by a regression fitted on a simulated engine.
#include <cstddef>
#include <string>

#include "base/error.h"
#include "config/load.h"
#include "model/beliefs.h"

namespace wattle::experiment {

struct RequestFit {
  RequestLatency model;
  double r2 = 0.0;  ///< on the fitted samples
  std::size_t samples = 0;
};

/// Simulates one instance of the pool for two minutes of the workload at each of eight clocks and three loads, with
/// different requests than the actual run (another seed; for a trace its synthetic stand-in, if it names one), and
/// records the features when each request is dispatched and its latency. At low clocks the higher loads exceed
/// capacity, on purpose: without such runs the baseline considers every clock sufficient, falls behind and never
/// catches up. Least squares. Deterministic, below a second. Errors: bad input; an instance that is not colocated; no
/// finished request.
[[nodiscard]] Result<RequestFit> fit_request_latency(const config::LoadedScenario& loaded, std::size_t pool,
                                                     const std::string& data_dir);

}  // namespace wattle::experiment
