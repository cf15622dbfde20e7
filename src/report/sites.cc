// A run over several sites: carbon intensity, load, clocks and emissions, over the day and by site.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/csv.h"
#include "base/file.h"
#include "report/chart.h"
#include "report/page.h"
#include "report/text.h"

namespace wattle::report {

namespace {

using Points = std::vector<std::pair<double, double>>;

/// A place with its electricity, as the run left it in sites.csv.
struct Place {
  std::string name;
  std::vector<double> at_s;       ///< ascending
  std::vector<double> g_per_kwh;  ///< from that time on, as the ledger books
  std::vector<double> decision;   ///< as plans went by it; empty: likewise
};

/// Empty where the run had one site, or wrote nothing of them.
std::vector<Place> places_of(const Run& run) {
  const auto& rows = run.file.summary.by_site;
  const std::string path = (std::filesystem::path(run.directory) / "sites.csv").string();
  std::error_code code;
  if (rows.size() < 2 || !std::filesystem::exists(path, code)) return {};
  const auto text = read_file(path);
  if (!text) return {};
  std::vector<std::string> names{"time_s"};
  for (std::size_t n = 0; n < rows.size(); ++n) names.push_back(fmt::format("g_per_kwh_{}", n));
  const bool apart = text->substr(0, text->find('\n')).find("decision_g_per_kwh_0") != std::string::npos;
  for (std::size_t n = 0; apart && n < rows.size(); ++n) names.push_back(fmt::format("decision_g_per_kwh_{}", n));
  const std::vector<std::string_view> columns(names.begin(), names.end());
  auto csv = CsvReader::open(*text, path, columns);
  if (!csv) return {};
  std::vector<Place> places;
  for (const auto& row : rows) places.push_back({row.name, {}, {}, {}});
  for (;;) {
    const auto more = csv->next();
    if (!more || !*more) return places;
    const auto at = csv->number(0, 0.0, 1e12);
    if (!at) return {};
    const auto grams = [&](std::size_t column) {
      const auto said = csv->number(column, -1e6, 1e6);
      return said ? *said : std::numeric_limits<double>::quiet_NaN();
    };
    for (std::size_t n = 0; n < places.size(); ++n) {
      places[n].at_s.push_back(*at);
      places[n].g_per_kwh.push_back(grams(n + 1));
      if (apart) places[n].decision.push_back(grams(places.size() + n + 1));
    }
  }
}

/// Sums over a site's instances, per interval of the timeline.
struct SiteSeries {
  Series power;  ///< W, sum
  Series clock;  ///< MHz, mean over those that were sampled
};

SiteSeries series_of(const Run& run, std::size_t site) {
  const std::size_t n = run.timeline->intervals();
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  SiteSeries sum{Series(n, kNone), Series(n, kNone)};
  std::vector<int> clocks(n, 0);
  for (const auto& facts : run.file.facts.instances) {
    if (static_cast<std::size_t>(facts.spec.site.value()) != site) continue;
    const Series power = run.timeline->series(facts.id, Signal::Power);
    const Series clock = run.timeline->series(facts.id, Signal::Clock);
    for (std::size_t k = 0; k < std::min(n, power.size()); ++k) {
      if (std::isnan(power[k])) continue;
      sum.power[k] = (std::isnan(sum.power[k]) ? 0.0 : sum.power[k]) + power[k];
      if (power[k] <= 0.0) continue;  // gone
      sum.clock[k] = (std::isnan(sum.clock[k]) ? 0.0 : sum.clock[k]) + clock[k];
      ++clocks[k];
    }
  }
  for (std::size_t k = 0; k < n; ++k) {
    if (clocks[k] > 0) sum.clock[k] /= clocks[k];
  }
  return sum;
}

double intensity_at(const Place& site, const std::vector<double>& g_per_kwh, double seconds) {
  const auto after = std::ranges::upper_bound(site.at_s, seconds);
  if (after == site.at_s.begin()) return std::numeric_limits<double>::quiet_NaN();
  return g_per_kwh[static_cast<std::size_t>(after - site.at_s.begin()) - 1];
}

Points points_of(const Run& run, const Series& series) {
  // Averaged: a line needs no more points than a screen has.
  constexpr std::size_t kMost = 240;
  const std::size_t stride = std::max<std::size_t>(1, (series.size() + kMost - 1) / kMost);
  Points points;
  for (std::size_t k = 0; k < series.size(); k += stride) {
    double sum = 0.0;
    int known = 0;
    for (std::size_t j = k; j < std::min(series.size(), k + stride); ++j) {
      if (std::isnan(series[j])) continue;
      sum += series[j];
      ++known;
    }
    points.emplace_back((static_cast<double>(k) + 0.5 * static_cast<double>(stride)) * run.timeline->interval_s(),
                        known > 0 ? sum / known : std::numeric_limits<double>::quiet_NaN());
  }
  return points;
}

std::size_t colour_of(std::size_t site) { return 1 + site % (kColours - 1); }

std::string chart_of(const Run& run, std::size_t index, const char* name, const char* unit, bool from_zero,
                     const std::vector<Points>& by_site, double end_s) {
  LineChart chart;
  chart.name = fmt::format("{} of {} by site", name, run.label);
  chart.width = 560;
  chart.height = 200;
  chart.x = time_axis(end_s);
  double low = from_zero ? 0.0 : std::numeric_limits<double>::max();
  double high = from_zero ? 1.0 : std::numeric_limits<double>::lowest();
  for (std::size_t n = 0; n < by_site.size(); ++n) {
    bool any = false;
    for (const auto& [x, y] : by_site[n]) {
      if (std::isnan(y)) continue;
      any = true;
      low = std::min(low, y);
      high = std::max(high, y);
    }
    if (any) chart.lines.push_back({.run = index, .colour = colour_of(n), .points = by_site[n], .end_label = {}});
  }
  if (chart.lines.empty()) return {};
  chart.y = linear_axis(low, std::max(high, low + 1.0), 4, unit);
  return fmt::format("<figure><figcaption>{}<small>{}</small></figcaption>{}</figure>", escape(name), escape(unit),
                     svg(chart));
}

std::string legend(const Run& run, const std::vector<Place>& sites) {
  std::string out = "<p class=\"sites\">";
  for (std::size_t n = 0; n < sites.size(); ++n) {
    const auto& row = run.file.summary.by_site[n];
    const Scaled energy = scaled(row.energy.value(), "J");
    const Scaled carbon = scaled(row.carbon.value(), "g");
    const auto& facts = run.file.facts.sites;
    const std::string by = n >= facts.size() ? ""
                           : facts[n].books == facts[n].decisions
                               ? fmt::format(" (booked and decided by: {})", facts[n].books)
                               : fmt::format(" (booked by: {}; decided by: {})", facts[n].books, facts[n].decisions);
    out += fmt::format("<span><i class=\"swatch r{}\"></i>{}: {} {}, {} {} CO₂{}</span>", colour_of(n),
                       escape(sites[n].name), number(row.energy.value() * energy.factor, 3), energy.unit,
                       number(row.carbon.value() * carbon.factor, 3), carbon.unit, escape(by));
  }
  return out + "</p>";
}

std::string pictures(const Run& run, std::size_t index) {
  const std::vector<Place> sites = places_of(run);
  if (sites.empty()) return {};
  std::vector<Points> intensity;
  std::vector<Points> decision;
  std::vector<Points> power;
  std::vector<Points> clock;
  std::vector<Points> grams;
  for (std::size_t n = 0; n < sites.size(); ++n) {
    const SiteSeries of = series_of(run, n);
    power.push_back(points_of(run, of.power));
    clock.push_back(points_of(run, of.clock));
    intensity.emplace_back();
    decision.emplace_back();
    grams.emplace_back();
    for (const auto& [x, watts] : power.back()) {
      const double now = intensity_at(sites[n], sites[n].g_per_kwh, x);
      intensity.back().emplace_back(x, now);
      grams.back().emplace_back(x, watts / 1e3 * now);
      if (!sites[n].decision.empty()) decision.back().emplace_back(x, intensity_at(sites[n], sites[n].decision, x));
    }
  }
  const double end_s = static_cast<double>(run.timeline->intervals()) * run.timeline->interval_s();
  const std::string drawn =
      chart_of(run, index, "Carbon intensity", "g/kWh", true, intensity, end_s) +
      chart_of(run, index, "Carbon intensity that plans went by", "g/kWh", true, decision, end_s) +
      chart_of(run, index, "Placement: power drawn", "W", true, power, end_s) +
      chart_of(run, index, "Clock, mean of instances", "MHz", false, clock, end_s) +
      chart_of(run, index, "CO₂ as it is emitted", "g/h", true, grams, end_s);
  if (drawn.empty()) return {};
  return "<h3>" + escape(run.label) + "</h3>" + legend(run, sites) + "<div class=\"pair\">" + drawn + "</div>";
}

}  // namespace

std::string site_plots(const Comparison& c) {
  std::string out;
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    if (c.runs[i].timeline) out += pictures(c.runs[i], i);
  }
  if (out.empty()) return out;
  return "<section><h2>Sites</h2><p class=\"note\">Totals are the ledger's; the pictures show means of samples, "
         "emission as power times intensity at that time.</p>" +
         out + "</section>";
}

}  // namespace wattle::report
