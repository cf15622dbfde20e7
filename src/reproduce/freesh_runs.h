#pragma once
// Simulated runs of FREESH: a recipe, as it ships, over the release's sites and demand.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "journal/record.h"
#include "journal/summary.h"
#include "plan/pools_csv.h"
#include "reproduce/freesh.h"
#include "workload/source.h"

namespace wattle::reproduce::freesh {

/// Episodes E1 and E2, one after the other: windows 24 and 25 of the released day.
struct FleetRun {
  std::string recipe;
  std::vector<std::string> set = {};  ///< overrides of the recipe
  double scale = 1.0;                 ///< multiplies the requests, not the planned demand
  std::uint64_t seed = 1;
  double start_s = 0.0354;  ///< until a worker serves; Table 6: TP switching
  /// New workers start at once on GPUs whose workers still finish requests; off: after those have ended.
  bool beside = true;
  bool all_at_first_site = false;  ///< the GPUs of all sites are at this one
  bool given = true;               ///< planned for the released peaks over beta; else for the observed load by class
  /// Requests of this partition's types, from 0; none: of the one that the recipe sorts by, as the release has traffic
  /// and prompts by type.
  std::optional<std::size_t> requests_of = {};
};

/// Where finished requests spent their time.
struct Waits {
  double requests = 0.0;
  double held_s = 0.0, held_p99_s = 0.0;                       ///< from arrival until sent to an engine
  double ttft_ms = 0.0, ttft_p50_ms = 0.0, ttft_p99_ms = 0.0;  ///< from then on
  double e2e_s = 0.0, tbt_ms = 0.0;                            ///< means
};

struct Drawn {
  double energy_wh = 0.0, carbon_kg = 0.0;
};

struct Served {
  double energy_wh = 0.0, carbon_kg = 0.0;
  Drawn rated;                                      ///< if workers drew as the paper says (RatedPower)
  double in_hour_wh = 0.0, rated_in_hour_wh = 0.0;  ///< before the hour's end
  double requests = 0.0, finished = 0.0;
  double duration_s = 0.0;                          ///< until the last request is done
  double gpus = 0.0;                                ///< mean
  double e2e_s = 0.0, ttft_ms = 0.0, tbt_ms = 0.0;  ///< means
  double e2e_p50_s = 0.0, tbt_p50_ms = 0.0;
  double ttft_p99_ms = 0.0, tbt_p99_ms = 0.0;
  double violations = 0.0;  ///< share of requests beyond 5 x Lat
  double jain = 0.0;
  double clock_mhz = 0.0;         ///< mean over workers
  std::vector<Waits> waits = {};  ///< of all, then by type
};

/// Sites, GPUs, marginal intensity, classes and their limits are the release's; requests as draw_load says. One hour.
/// Errors: WATTLE_DATA not set, no such file; whatever running a scenario says.
[[nodiscard]] Result<Served> run_fleet(const plan::PoolsData& data, const FleetRun& run);

/// Commanded clocks over time, (second, MHz), of a run of one instance over these rows.
[[nodiscard]] Result<std::vector<std::pair<double, double>>> run_clocks(const std::string& scenario,
                                                                        const std::string& recipe,
                                                                        const std::vector<std::string>& set,
                                                                        std::vector<workload::TraceRow> rows);

/// Number of times that such a clock rises after the start.
[[nodiscard]] int rises(const std::vector<std::pair<double, double>>& clocks);

/// A scenario's recipe run over these rows.
[[nodiscard]] Result<journal::RunSummary> run_rows(const std::string& scenario, const std::string& recipe,
                                                   const std::vector<std::string>& set,
                                                   std::vector<workload::TraceRow> rows, journal::Sink* sink = nullptr);

}  // namespace wattle::reproduce::freesh
