#pragma once
// What one engine can carry: the load profile that autoscaling and right-scaled traces rest on.
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "config/load.h"

namespace wattle::experiment {

/// The most requests per second one engine carries at its highest clock without long tail latencies.
struct MaxLoad {
  double rate_per_s = 0.0;
  Span e2e_p99;        ///< simulated, at that rate
  Span e2e_objective;  ///< what it was held against
};

struct MaxLoadOptions {
  /// Objective for the p99 of E2E latency; none: the pool's max_load_e2e_ms, else the scenario's slo.e2e_ms, and
  /// without that twice the p99 of requests that have the engine to themselves.
  std::optional<Span> e2e;
  std::int64_t requests = 4000;  ///< per probed rate
};

/// Measures in the simulator, as throttLL'eM's Section V-A does on its testbed (the rate is raised until tail latencies
/// grow; there, the p99 at maximum load defines the E2E objective, Table II): the highest rate of Poisson arrivals at
/// which one engine of `pool`, at its highest clock and with nobody held back, keeps the p99 of E2E latency within the
/// objective, and no more than it serves of a crowd, to 1 %. Lengths are those of the scenario's workload.load_lengths
/// (the paper's: MLPerf's), without one its own (its whole workload, spread). Deterministic; about twenty short
/// simulations. Errors: those of the scenario; an objective that even a lone request misses.
[[nodiscard]] Result<MaxLoad> measure_max_load(const config::LoadedScenario& loaded, std::size_t pool,
                                               const std::string& data_dir, const MaxLoadOptions& options = {});

/// The p99 of E2E latency of one engine of `pool` at `rate_per_s`, measured as measure_max_load does; Span::max() when
/// some request did not finish. Errors: as there.
[[nodiscard]] Result<Span> measure_e2e_p99(const config::LoadedScenario& loaded, std::size_t pool, double rate_per_s,
                                           const std::string& data_dir, std::int64_t requests = 4000);

/// The scenario with its loads as numbers: pools[].max_load_per_s where `every_pool` wants them or a share of them is
/// asked for, workload.peak_load and trough_load as rates. What is stated is not measured.
[[nodiscard]] Result<config::LoadedScenario> with_loads(const config::LoadedScenario& loaded, bool every_pool,
                                                        const std::string& data_dir);

}  // namespace wattle::experiment
