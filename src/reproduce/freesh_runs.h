#pragma once
// Simulated episodes of FREESH: a plan's workers serve each type's requests, pool by pool.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "journal/record.h"
#include "journal/summary.h"
#include "plan/pools.h"
#include "reproduce/freesh.h"
#include "workload/source.h"

namespace wattle::reproduce::freesh {

/// Requests of one type, as classified, in order of arrival.
struct TypeLoad {
  std::vector<workload::TraceRow> rows;
};

/// One window's requests by type of `problem`'s partition: Poisson arrivals at the planned demand of each slot (times
/// `scale`), all slots equally long and `seconds` together; prompts and answers are drawn from real ones of the type
/// (LMSYS with Llama, cut as the partition is). `accuracy`: the share of answers classified right; the others go to the
/// pool of the other length. Errors: WATTLE_DATA not set, no such file.
struct LoadOptions {
  double seconds = 120.0;
  double scale = 1.0;
  double accuracy = 0.8715;  ///< Table 9
  std::uint64_t seed = 1;
};
[[nodiscard]] Result<std::vector<TypeLoad>> draw_load(const plan::RequestPartition& partition,
                                                      const LoadOptions& options);

/// How workers are run.
struct Service {
  std::vector<std::string> set;  ///< overrides of the recipe
  std::string recipe = "freesh-baseline";
  bool one_pool = false;  ///< any request to any worker; else each type has its own
};

/// Sums over pools; means are over requests.
struct Served {
  double energy_wh = 0.0;  ///< scaled to half an hour
  double carbon_kg = 0.0;  ///< likewise
  double requests = 0.0, finished = 0.0;
  double e2e_s = 0.0, ttft_ms = 0.0, tbt_ms = 0.0;  ///< means
  double ttft_p99_ms = 0.0, tbt_p99_ms = 0.0;       ///< of the worst pool
  double violations = 0.0;                          ///< share of requests
  double jain = 0.0;
  double clock_mhz = 0.0;  ///< mean over workers
  std::vector<double> site_wh;
  Served& operator+=(const Served& o);
};

/// Errors: a plan without workers for a type that has requests; whatever running a scenario says.
[[nodiscard]] Result<Served> serve(const plan::PoolsProblem& problem, const plan::PoolsPlan& plan,
                                   std::span<const TypeLoad> load, const Service& how, double seconds);

/// A scenario's recipe run over these rows; `sites`: intensities by slot of equal length over `seconds`.
[[nodiscard]] Result<journal::RunSummary> run_rows(const std::string& scenario, const Service& how,
                                                   std::vector<workload::TraceRow> rows,
                                                   const std::vector<plan::PoolSite>& sites, double seconds,
                                                   journal::Sink* outcomes = nullptr);

}  // namespace wattle::reproduce::freesh
