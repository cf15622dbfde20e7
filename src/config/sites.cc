#include "config/sites.h"

#include <algorithm>

#include "base/csv.h"
#include "base/file.h"
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

Result<std::vector<std::vector<Span>>> make_round_trips(const Scenario& scenario, const std::string& data_dir) {
  const auto zoned = std::ranges::count_if(scenario.sites, [](const auto& site) { return !site.zone.empty(); });
  if (zoned == 0) return {};
  if (static_cast<std::size_t>(zoned) != scenario.sites.size()) {
    return bad_input(scenario.file, "some sites have a zone and some have none; round trips need one for each");
  }
  const auto path = workload::find_file("cloud-regions/gcp_latency_matrix.csv", data_dir, base_dir(scenario));
  if (!path) return std::unexpected(path.error());
  const auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  std::vector<std::string_view> columns{"origin"};
  for (const auto& site : scenario.sites) columns.push_back(site.zone);
  auto csv = CsvReader::open(*text, *path, columns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<std::vector<Span>> trips(scenario.sites.size());
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    for (std::size_t from = 0; from < trips.size(); ++from) {
      if (csv->field(0) != scenario.sites[from].zone || !trips[from].empty()) continue;
      for (std::size_t to = 0; to < trips.size(); ++to) {
        const auto ms = csv->number(to + 1, 0.0, 60'000.0);
        if (!ms) return std::unexpected(ms.error());
        trips[from].push_back(Span::from_seconds(*ms * 1e-3));
      }
    }
  }
  for (std::size_t from = 0; from < trips.size(); ++from) {
    if (trips[from].empty()) return bad_input(*path, "there is no row for zone \"" + scenario.sites[from].zone + "\"");
  }
  return trips;
}

SiteId site_of(const Scenario& scenario, const PoolOptions& pool) { return site_named(scenario, pool.site); }

}  // namespace wattle::config
