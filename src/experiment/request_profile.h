#pragma once
// What is believed of the time a whole request takes: a regression fitted on a simulated engine.
#include <cstddef>
#include <string>

#include "base/error.h"
#include "config/load.h"
#include "model/beliefs.h"

namespace wattle::experiment {

struct RequestFit {
  RequestLatency model;
  double r2 = 0.0;  ///< on what it was fitted on
  std::size_t samples = 0;
};

/// Runs one instance of the pool for two minutes of the trace at each of eight clocks and three loads of the scenario's
/// own kind, with requests it will not see again (another seed; a trace's synthetic stand-in where it names one),
/// noting what the features were as each request was dispatched and how long it then took. Low clocks do not carry
/// the higher loads, and that is to be seen: without such runs the baseline takes every clock for good enough, falls
/// behind and never catches up. Least squares. Deterministic, below a second. Errors: bad input; an instance that is
/// not colocated; no finished request.
[[nodiscard]] Result<RequestFit> fit_request_latency(const config::LoadedScenario& loaded, std::size_t pool,
                                                     const std::string& data_dir);

}  // namespace wattle::experiment
