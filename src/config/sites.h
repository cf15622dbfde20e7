#pragma once
// A scenario's sites, with their series read.
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "carbon/ledger.h"
#include "config/scenario.h"

namespace wattle::config {

/// When a run begins: of its own time, and of the world's.
struct RunStart {
  Instant at;
  std::optional<std::int64_t> wall_ns;  ///< since 1970 UTC; for sites that state no start of their own
};

/// By SiteId, in the scenario's order; a scenario without [[site]] has one, without a name. Errors: a file that is
/// missing, malformed, or does not cover the run's start.
[[nodiscard]] Result<std::vector<carbon::SiteRates>> make_sites(const Scenario& scenario, const std::string& data_dir,
                                                                const RunStart& start = {});

/// From site to site, by SiteId; empty where no site has a zone. Errors: the table is missing or malformed, a zone is
/// not in it, only some sites have one.
[[nodiscard]] Result<std::vector<std::vector<Span>>> make_round_trips(const Scenario& scenario,
                                                                      const std::string& data_dir);

/// Where a pool stands.
[[nodiscard]] SiteId site_of(const Scenario& scenario, const PoolOptions& pool);

}  // namespace wattle::config
