#pragma once
// The maximum load of one engine, on which autoscaling and scaled traces are based.
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "config/load.h"

namespace wattle::experiment {

/// The highest request rate that one engine carries at its highest clock without long tail latencies.
struct MaxLoad {
  double rate_per_s = 0.0;
  Span e2e_p99;        ///< simulated, at that rate
  Span e2e_objective;  ///< the objective used
};

struct MaxLoadOptions {
  /// Objective for the p99 of E2E latency; none: the pool's max_load_e2e_ms, otherwise the scenario's slo.e2e_ms,
  /// otherwise twice the p99 of requests that do not overlap.
  std::optional<Span> e2e;
  std::int64_t requests = 4000;  ///< per probed rate
};

/// Measures in the simulator as throttLL'eM does on its testbed in Section V-A (the rate is raised until tail latencies
/// grow; there, the p99 at maximum load defines the E2E objective, Table II): the highest rate of Poisson arrivals, to
/// 1 %, at which one engine of `pool`, at its highest clock and with unlimited admission, keeps the p99 of E2E latency
/// within the objective, and at most its throughput when all requests arrive at once. Lengths are those of the
/// scenario's workload.load_lengths (the paper's: MLPerf's), otherwise its workload's, over its whole duration.
/// Deterministic; about twenty short simulations. Errors: those of the scenario; an objective that even a single
/// request misses.
[[nodiscard]] Result<MaxLoad> measure_max_load(const config::LoadedScenario& loaded, std::size_t pool,
                                               const std::string& data_dir, const MaxLoadOptions& options = {});

/// The p99 of E2E latency of one engine of `pool` at `rate_per_s`, measured as in measure_max_load; Span::max() if some
/// request did not finish. Errors: as there.
[[nodiscard]] Result<Span> measure_e2e_p99(const config::LoadedScenario& loaded, std::size_t pool, double rate_per_s,
                                           const std::string& data_dir, std::int64_t requests = 4000);

/// The scenario with measured loads: pools[].max_load_per_s if `every_pool` is set or a load is stated as a share of
/// it, and workload.peak_load and trough_load as rates. Stated values are not measured.
[[nodiscard]] Result<config::LoadedScenario> with_loads(const config::LoadedScenario& loaded, bool every_pool,
                                                        const std::string& data_dir);

}  // namespace wattle::experiment
