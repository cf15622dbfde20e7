#include "config/sites.h"

#include <algorithm>

#include "base/timestamp.h"
#include "config/locate.h"
#include "config/service.h"
#include "workload/source.h"

namespace wattle::config {

namespace {

/// The series of a file that is named, else the constant.
template <typename Value>
Result<carbon::Series<Value>> series(const std::string& file, const carbon::SeriesForm& form, Value constant,
                                     const std::string& data_dir, const std::string& base_dir,
                                     std::optional<std::int64_t> origin_ns, Instant start) {
  if (file.empty()) return carbon::Series<Value>::constant(constant);
  const auto path = workload::find_file(file, data_dir, base_dir);
  if (!path) return std::unexpected(path.error());
  return carbon::load_series<Value>(form, *path, origin_ns, start);
}

carbon::SeriesForm intensity_form(const std::string& column) {
  return column.empty()     ? carbon::electricity_maps_direct()
         : column == "MOER" ? carbon::watttime_moer()
                            : carbon::grams_column(column);
}

}  // namespace

Result<std::vector<carbon::SiteRates>> make_sites(const Scenario& scenario, const std::string& data_dir,
                                                  const RunStart& start) {
  std::vector<carbon::SiteRates> made;
  if (scenario.sites.empty()) {
    made.emplace_back();
    made.back().intensity = carbon::IntensitySeries::constant(scenario.carbon_intensity);
    made.back().gpu_price = scenario.gpu_price;
    return made;
  }
  for (const SiteOptions& site : scenario.sites) {
    auto wall_ns = start.wall_ns;
    if (!site.start.empty()) {
      wall_ns = parse_timestamp(site.start);
      if (!wall_ns) {
        return bad_input(scenario.file, "start of [[site]] " + site.name + " is '" + site.start +
                                            "'; it must be a time like 2024-01-01 00:00:00 (UTC)");
      }
    }
    // Series count from their origin, the run's Instant 0.
    const auto origin = wall_ns ? std::optional(*wall_ns - start.at.ns()) : std::nullopt;
    const Instant begin = wall_ns ? start.at : Instant();
    const auto base = base_dir(scenario);
    auto intensity = series(site.intensity_file, intensity_form(site.intensity_column), site.intensity, data_dir, base,
                            origin, begin);
    if (!intensity) return std::unexpected(intensity.error());
    auto electricity =
        series(site.electricity_file,
               site.electricity_column.empty() ? carbon::caiso_price() : carbon::price_column(site.electricity_column),
               site.electricity, data_dir, base, origin, begin);
    if (!electricity) return std::unexpected(electricity.error());
    made.push_back({site.name, std::move(*intensity), std::move(*electricity), site.gpu});
  }
  return made;
}

SiteId site_of(const Scenario& scenario, const PoolOptions& pool) { return site_named(scenario, pool.site); }

}  // namespace wattle::config
