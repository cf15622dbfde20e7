#pragma once
// A scenario's sites, with their series read.
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

/// When a run begins: of its own time, and of the world's.
struct RunStart {
  Instant at;
  std::optional<std::int64_t> wall_ns = std::nullopt;  ///< since 1970 UTC; for sites that state no start of their own
  bool asks =
      false;  ///< somebody asks the sources that sites name without a file (site_sources); else that is an error
  std::function<void(const std::string&)> warn = nullptr;  ///< of gaps and the like, a line each
};

/// By SiteId, in the scenario's order; a scenario without [[site]] has one, without a name. Errors: a file that is
/// missing, malformed, of another kind than the scenario says, or does not cover the run's start; a source that nobody
/// asks. Where a file has gaps its series does not cover; of a source that is asked it covers nothing yet.
[[nodiscard]] Result<std::vector<carbon::SiteRates>> make_sites(const Scenario& scenario, const std::string& data_dir,
                                                                const RunStart& start = {});

/// A source that a site names without a file, so that it is to be asked.
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

/// From site to site, by SiteId; empty where no site has a zone. Errors: the table is missing or malformed, a zone is
/// not in it, only some sites have one.
[[nodiscard]] Result<std::vector<std::vector<Span>>> make_round_trips(const Scenario& scenario,
                                                                      const std::string& data_dir);

/// Where a pool stands.
[[nodiscard]] SiteId site_of(const Scenario& scenario, const PoolOptions& pool);

}  // namespace wattle::config
