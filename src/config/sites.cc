#include "config/sites.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/csv.h"
#include "base/file.h"
#include "base/timestamp.h"
#include "config/locate.h"
#include "config/service.h"
#include "feeds/stored.h"
#include "workload/source.h"

namespace wattle::config {

namespace {

constexpr const char* kConstant = "the scenario's constant";

/// Context for reading a site's intensity: the start within the files, and their folder.
struct Reading {
  const SiteOptions& site;
  std::string where;  ///< "FILE: [[site]] NAME"
  const std::string& data_dir;
  std::string base_dir;
  std::optional<std::int64_t> origin_ns;
  Instant start;
  const RunStart& run;
};

/// The prices of a file that is named, else the constant.
Result<carbon::PriceSeries> prices(const Reading& in) {
  if (in.site.electricity_file.empty()) return carbon::PriceSeries::constant(in.site.electricity);
  const auto path = workload::find_file(in.site.electricity_file, in.data_dir, in.base_dir);
  if (!path) return std::unexpected(path.error());
  const auto& column = in.site.electricity_column;
  return carbon::load_series<UsdPerMwh>(column.empty() ? carbon::caiso_price() : carbon::price_column(column), *path,
                                        in.origin_ns, in.start);
}

/// The query for a source of emissions, with the selected signal.
feeds::Query query_of(const IntensityOptions& o, bool decides) {
  feeds::Query query;
  const auto source = feeds::source_named(o.source);
  query.source = source.value_or(feeds::Source::ElectricityMaps);
  query.zone = o.zone;
  query.base_url = o.base_url;
  query.scope = o.scope == "direct" ? feeds::EmissionScope::Direct : feeds::EmissionScope::Lifecycle;
  const bool either = source == feeds::Source::WattTime || source == feeds::Source::CarbonAware;
  // A column of g/kWh without further information may be of either kind; marginal intensity has the wider bounds.
  const bool marginal =
      o.kind.empty() ? (either && decides) || source == feeds::Source::Pjm || !source : o.kind == "marginal";
  query.kind = marginal ? feeds::IntensityKind::Marginal : feeds::IntensityKind::Average;
  return query;
}

feeds::Wanted wanted_of(const IntensityOptions& o, bool decides, const feeds::Query& query, const std::string& where) {
  const std::string stem = where + ": " + (decides ? "decision_" : "intensity_");
  feeds::Wanted wanted;
  wanted.of = o.file;
  wanted.kind_name = stem + "kind";
  wanted.scope_name = stem + "scope";
  if (o.asked_online() || !o.kind.empty()) wanted.kind = query.kind;
  const bool asked_scope = o.asked_online() && query.source == feeds::Source::ElectricityMaps;
  if (asked_scope || !o.scope.empty()) wanted.scope = query.scope;
  return wanted;
}

/// For people: "average, lifecycle, electricity-maps DE".
std::string said_by(const IntensityOptions& o, const feeds::FeedLabel& label) {
  const bool kind_is_known = !o.source.empty() || o.column.empty() || o.column == "MOER" || !o.kind.empty();
  std::string text = kind_is_known ? std::string(feeds::text_of(label.kind)) + ", " : "";
  if (label.scope != feeds::EmissionScope::Unstated) text += std::string(feeds::text_of(label.scope)) + ", ";
  text += o.source.empty() ? "csv" : o.source;
  if (!label.zone.empty()) text += " " + label.zone;
  if (!o.file.empty()) text += " of " + o.file;
  return text;
}

struct Intensity {
  carbon::IntensitySeries series;
  std::string by;
};

/// From a file, from a source that is queried later (empty for now), or the constant.
Result<Intensity> intensity(const Reading& in, const IntensityOptions& o, bool decides) {
  if (!o.stated()) {
    return Intensity{carbon::IntensitySeries::constant(in.site.intensity), kConstant};
  }
  const feeds::Query query = query_of(o, decides);
  if (o.asked_online()) {
    const auto key = decides ? "decision_" : "intensity_";
    const bool online = feeds::source_named(o.source).has_value();
    if (!online || !in.run.asks) {
      return bad_input(in.where, fmt::format("{0}source is {1}, which {2}; {0}file must name {3}", key, o.source,
                                             online ? "only a live gateway or planner asks" : "is a form of files",
                                             online ? "an answer of it that was kept" : "one"));
    }
    const feeds::FeedLabel label{o.source, o.zone, query.kind, feeds::EmissionScope::Unstated};
    return Intensity{carbon::IntensitySeries::unknown(in.site.intensity), said_by(o, label)};
  }
  const auto path = workload::find_file(o.file, in.data_dir, in.base_dir);
  if (!path) return std::unexpected(path.error());
  const auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  const auto feed = feeds::parse_stored(o.source, query, o.column, *text, *path);
  if (!feed) return std::unexpected(feed.error());
  if (auto ok = feeds::check_label(feed->label(), wanted_of(o, decides, query, in.where)); !ok) {
    return std::unexpected(ok.error());
  }
  const Instant origin(in.origin_ns.value_or(feed->begin().ns()));
  if (auto ok = feed->check_holds(origin + (in.start - Instant()), *path); !ok) return std::unexpected(ok.error());
  for (const auto& warning : feed->warnings()) {
    if (in.run.warn) in.run.warn(fmt::format("{}: {}: {}", in.where, *path, warning));
  }
  return Intensity{feed->series(origin), said_by(o, feed->label())};
}

std::string where_of(const Scenario& scenario, const SiteOptions& site) {
  return scenario.file + ": [[site]] " + site.name;
}

}  // namespace

Result<std::vector<carbon::SiteRates>> make_sites(const Scenario& scenario, const std::string& data_dir,
                                                  const RunStart& start) {
  std::vector<carbon::SiteRates> made;
  if (scenario.sites.empty()) {
    made.emplace_back();
    made.back().intensity = carbon::IntensitySeries::constant(scenario.carbon_intensity);
    made.back().gpu_price = scenario.gpu_price;
    made.back().books_by = made.back().decisions_by = kConstant;
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
    const Reading in{site,
                     where_of(scenario, site),
                     data_dir,
                     base_dir(scenario),
                     wall_ns ? std::optional(*wall_ns - start.at.ns()) : std::nullopt,
                     wall_ns ? start.at : Instant(),
                     start};
    auto books = intensity(in, site.books, false);
    if (!books) return std::unexpected(books.error());
    auto electricity = prices(in);
    if (!electricity) return std::unexpected(electricity.error());
    auto& rates = made.emplace_back();
    rates.name = site.name;
    rates.by_time_of_day = site.start.empty() && start.wall_ns.has_value();
    rates.intensity = std::move(books->series);
    rates.electricity = std::move(*electricity);
    rates.gpu_price = site.gpu;
    rates.books_by = rates.decisions_by = std::move(books->by);
    if (!site.decisions.stated()) continue;
    auto decisions = intensity(in, site.decisions, true);
    if (!decisions) return std::unexpected(decisions.error());
    rates.decisions = std::move(decisions->series);
    rates.decisions_by = std::move(decisions->by);
  }
  return made;
}

std::vector<SiteSource> site_sources(const Scenario& scenario) {
  std::vector<SiteSource> all;
  for (std::size_t n = 0; n < scenario.sites.size(); ++n) {
    const SiteOptions& site = scenario.sites[n];
    for (const bool decides : {false, true}) {
      const IntensityOptions& o = decides ? site.decisions : site.books;
      if (!o.asked_online()) continue;
      const auto query = query_of(o, decides);
      all.push_back({SiteId(static_cast<std::int32_t>(n)), decides,
                     fmt::format("[[site]] {}: {} {}", site.name, o.source, o.zone), query,
                     wanted_of(o, decides, query, where_of(scenario, site)), o.key_file, site.refresh, site.max_age,
                     site.timeout});
    }
  }
  return all;
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
