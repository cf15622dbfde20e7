#include "experiment/saturation.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "experiment/prepare.h"
#include "workload/poisson_rows.h"

namespace wattle::experiment {

namespace {

/// Enough of a workload to draw lengths from; synthetic ones may be endless.
constexpr std::size_t kRowsReplayed = 50'000;
/// All requests at once, as good as always.
constexpr double kCrowdRate = 1e6;
/// Requests this far apart have the engine to themselves.
constexpr double kLoneRate = 1e-4;

class Prober {
 public:
  Prober(config::LoadedScenario loaded, std::vector<workload::TraceRow> rows, std::int64_t requests,
         std::string data_dir)
      : loaded_(std::move(loaded)), rows_(std::move(rows)), requests_(requests), data_dir_(std::move(data_dir)) {}

  /// p99 of E2E latency at this rate; Span::max() when some did not finish.
  Result<Span> e2e_p99(double rate_per_s) const {
    const auto summary = run_at(rate_per_s);
    if (!summary) return std::unexpected(summary.error());
    if (summary->requests.finished < summary->requests.arrived) return Span::max();
    return Span::from_seconds(summary->e2e.p99_ms * 1e-3);
  }

  /// The highest sustained rate in requests per second: the throughput of a backlog.
  Result<double> served_per_s() const {
    const auto summary = run_at(kCrowdRate);
    if (!summary) return std::unexpected(summary.error());
    return static_cast<double>(requests_) / summary->sim.virtual_s;
  }

 private:
  Result<journal::RunSummary> run_at(double rate_per_s) const {
    auto run = prepare(loaded_, systems::LoadedRecipe{}, data_dir_);
    if (!run) return std::unexpected(run.error());
    run->source = std::make_unique<workload::PoissonRows>(rows_, requests_, rate_per_s, loaded_.scenario.seed,
                                                          "saturation.arrivals");
    run->setup.source = run->source.get();
    return sim::simulate(std::move(run->setup)).summary;
  }

  config::LoadedScenario loaded_;
  std::vector<workload::TraceRow> rows_;
  std::int64_t requests_;
  std::string data_dir_;
};

/// For one engine of `pool`, with the lengths that measure_max_load states.
Result<Prober> make_prober(const config::LoadedScenario& loaded, std::size_t pool, const std::string& data_dir,
                           std::int64_t requests) {
  if (loaded.scenario.pools.at(pool).role != Role::Colocated) {
    return bad_input(loaded.origins.of(fmt::format("fleet.{}.role", pool)),
                     "prefill and decode instances have no maximum load of their own; only colocated ones do");
  }
  config::LoadedScenario one = alone(loaded, pool);
  // Capacity does not depend on the replayed slice or its rate.
  one.scenario.workload.start = Span();
  one.scenario.workload.duration = Span::max();
  one.scenario.peak_load = one.scenario.trough_load = 0.0;
  one.scenario.workload.peak_rate_per_s = one.scenario.workload.trough_rate_per_s = 0.0;
  if (!loaded.scenario.load_lengths.empty()) {
    one.scenario.workload.trace.clear();
    one.scenario.workload.synthetic = loaded.scenario.load_lengths;
  }
  auto whole = prepare(one, systems::LoadedRecipe{}, data_dir);
  if (!whole) return std::unexpected(whole.error());
  std::vector<workload::TraceRow> rows;
  while (rows.size() < kRowsReplayed) {
    const auto row = whole->source->next();
    if (!row) break;
    rows.push_back(*row);
  }
  return Prober(std::move(one), std::move(rows), requests, data_dir);
}

}  // namespace

Result<MaxLoad> measure_max_load(const config::LoadedScenario& loaded, std::size_t pool, const std::string& data_dir,
                                 const MaxLoadOptions& options) {
  const auto prober = make_prober(loaded, pool, data_dir, options.requests);
  if (!prober) return std::unexpected(prober.error());
  const auto alone = prober->e2e_p99(kLoneRate);
  if (!alone) return std::unexpected(alone.error());
  const config::PoolOptions& of_pool = loaded.scenario.pools[pool];
  if (*alone == Span::max()) {
    return bad_input(loaded.origins.of(fmt::format("fleet.{}.gpu", pool)),
                     fmt::format("one instance on {} alone does not serve all of the workload's requests, so it has no "
                                 "maximum load; state fleet.{}.max_load_per_s",
                                 of_pool.gpu, pool));
  }
  MaxLoad found;
  const auto& own = of_pool.max_load_e2e;
  const auto& stated = options.e2e ? options.e2e : own ? own : loaded.scenario.slo.e2e;
  found.e2e_objective = stated.value_or(*alone * 2);
  if (*alone > found.e2e_objective) {
    return bad_input(loaded.origins.of(own ? fmt::format("fleet.{}.max_load_e2e_ms", pool) : "slo.e2e_ms"),
                     fmt::format("{:.0f} ms is less than the {:.0f} ms (p99) that requests take which have {} to "
                                 "themselves; no load meets it",
                                 found.e2e_objective.millis(), alone->millis(), of_pool.gpu));
  }
  const auto most = prober->served_per_s();
  if (!most) return std::unexpected(most.error());
  // Multiplies the rate by ten until it is too high, then bisects. Beyond the served rate the queue grows, even if that
  // shows late.
  double low = kLoneRate;
  double high = 0.0;
  found.e2e_p99 = *alone;
  while (high == 0.0 || high > low * 1.01) {
    const double rate = high == 0.0 ? low * 10.0 : std::sqrt(low * high);
    const auto p99 = rate > *most ? Span::max() : prober->e2e_p99(rate);
    if (!p99) return std::unexpected(p99.error());
    if (*p99 > found.e2e_objective) {
      high = rate;
    } else {
      low = rate;
      found.e2e_p99 = *p99;
    }
  }
  found.rate_per_s = low;
  return found;
}

Result<Span> measure_e2e_p99(const config::LoadedScenario& loaded, std::size_t pool, double rate_per_s,
                             const std::string& data_dir, std::int64_t requests) {
  const auto prober = make_prober(loaded, pool, data_dir, requests);
  if (!prober) return std::unexpected(prober.error());
  return prober->e2e_p99(rate_per_s);
}

Result<config::LoadedScenario> with_loads(const config::LoadedScenario& loaded, bool every_pool,
                                          const std::string& data_dir) {
  config::LoadedScenario out = loaded;
  auto& scenario = out.scenario;
  const bool scaled = scenario.peak_load > 0.0 || scenario.trough_load > 0.0;
  const auto largest = std::ranges::max_element(scenario.pools, {}, &config::PoolOptions::gpus);
  for (auto pool = scenario.pools.begin(); pool != scenario.pools.end(); ++pool) {
    if (pool->max_load_per_s > 0.0 || !(every_pool || (scaled && pool == largest))) continue;
    const auto measured = measure_max_load(loaded, static_cast<std::size_t>(pool - scenario.pools.begin()), data_dir);
    if (!measured) return std::unexpected(measured.error());
    pool->max_load_per_s = measured->rate_per_s;
  }
  if (scenario.peak_load > 0.0) scenario.workload.peak_rate_per_s = scenario.peak_load * largest->max_load_per_s;
  if (scenario.trough_load > 0.0) scenario.workload.trough_rate_per_s = scenario.trough_load * largest->max_load_per_s;
  scenario.peak_load = scenario.trough_load = 0.0;
  return out;
}

}  // namespace wattle::experiment
