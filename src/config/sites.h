#pragma once
// Reads a scenario's sites with their series.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "carbon/ledger.h"
#include "config/scenario.h"
#include "feeds/sources/query.h"

namespace wattle::config {

/// When a run begins, in its own time and in wall-clock time.
struct RunStart {
  Instant at;
  std::optional<std::int64_t> wall_ns = std::nullopt;  ///< since 1970 UTC; for sites that state no start of their own
  bool asks =
      false;  ///< sources that sites name without a file are queried (site_sources); otherwise naming one is an error
  std::function<void(const std::string&)> warn = nullptr;  ///< called with a line for each gap or other repair
};

/// By SiteId, in the scenario's order; a scenario without [[site]] has one, without a name. Errors: a file that is
/// missing, malformed, of another kind than the scenario says, or does not cover the run's start; a source that is not
/// queried. A series does not cover its file's gaps; that of a source which is queried covers nothing yet.
[[nodiscard]] Result<std::vector<carbon::SiteRates>> make_sites(const Scenario& scenario, const std::string& data_dir,
                                                                const RunStart& start = {});

/// A source that a site names without a file, so that it must be queried.
struct SiteSource {
  SiteId site;
  bool decides = false;  ///< SiteRates::decisions of it; else SiteRates::intensity
  std::string name;      ///< "[[site]] north: electricity-maps DE", for people
  feeds::Query query;
  feeds::Wanted wanted;
  std::string key_file;
  Span refresh, max_age, timeout;
};
[[nodiscard]] std::vector<SiteSource> site_sources(const Scenario& scenario);

/// Round-trip times from site to site, by SiteId; empty if no site has a zone. Errors: the table is missing or
/// malformed, a zone is not in it, only some sites have one.
[[nodiscard]] Result<std::vector<std::vector<Span>>> make_round_trips(const Scenario& scenario,
                                                                      const std::string& data_dir);

/// The site of a pool.
[[nodiscard]] SiteId site_of(const Scenario& scenario, const PoolOptions& pool);

}  // namespace wattle::config
