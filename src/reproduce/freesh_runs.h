#pragma once
// Simulated runs of FREESH: a recipe, as it ships, over the release's sites and demand.
#include <cstdint>
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
  double scale = 1.0;                 ///< of the requests, not of what is planned for
  std::uint64_t seed = 1;
  bool given = false;  ///< planned for the released peaks; else for what is seen of each class, as it is classified
};

struct Served {
  double energy_wh = 0.0, carbon_kg = 0.0;
  double requests = 0.0, finished = 0.0;
  double e2e_s = 0.0, ttft_ms = 0.0, tbt_ms = 0.0;  ///< means
  double ttft_p99_ms = 0.0, tbt_p99_ms = 0.0;
  double violations = 0.0;  ///< share of requests beyond 5 x Lat
  double jain = 0.0;
  double clock_mhz = 0.0;  ///< mean over workers
};

/// Sites, GPUs, marginal intensity, classes and their limits are the release's; arrivals are Poisson at its demand of
/// each slot (partition 2, peaks by beta), prompts and answers are real ones of each type (LMSYS with Llama). One hour.
/// Errors: WATTLE_DATA not set, no such file; whatever running a scenario says.
[[nodiscard]] Result<Served> run_fleet(const plan::PoolsData& data, const FleetRun& run);

/// The clock as it is commanded, (second, MHz), of a run of one instance over these rows.
[[nodiscard]] Result<std::vector<std::pair<double, double>>> run_clocks(const std::string& scenario,
                                                                        const std::string& recipe,
                                                                        const std::vector<std::string>& set,
                                                                        std::vector<workload::TraceRow> rows);

/// A scenario's recipe run over these rows.
[[nodiscard]] Result<journal::RunSummary> run_rows(const std::string& scenario, const std::string& recipe,
                                                   const std::vector<std::string>& set,
                                                   std::vector<workload::TraceRow> rows, journal::Sink* sink = nullptr);

}  // namespace wattle::reproduce::freesh
