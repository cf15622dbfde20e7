#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "journal/names.h"
#include "report/chart.h"
#include "report/page.h"
#include "report/text.h"

namespace wattle::report {
namespace {

/// Rows of per-instance plots; beyond, a page would be neither readable nor small.
constexpr std::size_t kMaxInstances = 24;
/// Points over all lines of the page (about 9 bytes each).
constexpr std::size_t kPointBudget = 110'000;

std::string figure(const std::string& title, const std::string& unit, const std::string& picture) {
  return fmt::format("<figure><figcaption>{}{}</figcaption>{}</figure>", escape(title),
                     unit.empty() ? "" : "<small>" + escape(unit) + "</small>", picture);
}

std::string cdf(const Comparison& c, const char* title, const char* unit, journal::Curve journal::RunCurves::*curve,
                std::optional<Span> Slo::*limit) {
  double low = 1e300;
  double high = 0.0;
  LineChart chart;
  chart.width = 560;
  chart.height = 260;
  chart.name = fmt::format("{}: share of values at or below", title);
  std::map<std::int64_t, bool> limits;
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    const journal::Curve& points = c.runs[i].file.curves.*curve;
    if (const auto& slo = c.runs[i].file.facts.slo.*limit) limits[slo->ns()] = true;
    if (points.empty()) continue;
    Line line{.run = i, .colour = c.colour(i), .points = {}, .end_label = {}};
    // Of one value: a step, not a dot.
    if (points.size() == 1) line.points.emplace_back(points.front().first, 0.0);
    for (const auto& [ms, share] : points) {
      line.points.emplace_back(ms, share);
      if (share <= 0.9995) high = std::max(high, ms);
    }
    low = std::min(low, points.front().first);
    high = std::max(high, points.front().first);
    // The first hundredth of the requests would otherwise stretch the axis by decades.
    for (const auto& [ms, share] : points) {
      if (share >= 0.01) {
        low = std::max(low, std::min(low * 4.0, ms));
        break;
      }
    }
    chart.lines.push_back(std::move(line));
  }
  if (chart.lines.empty()) return {};
  for (const auto& [ns, unused] : limits) {
    const double ms = static_cast<double>(ns) * 1e-6;
    chart.limits.push_back({ms, "SLO " + duration_ms(ms)});
    low = std::min(low, ms * 0.9);
    high = std::max(high, ms * 1.1);
  }
  if (high < low * 1.05) {  // all values are equal, without an objective
    low *= 0.9;
    high *= 1.1;
  }
  chart.x = latency_axis(low, high);
  chart.y = tail_axis();
  return figure(title, unit, svg(chart));
}

struct SignalLook {
  Signal signal;
  const char* title;
  const char* unit;
};
constexpr std::array<SignalLook, 4> kLooks = {SignalLook{Signal::Power, "Power", "W"},
                                              {Signal::Clock, "Clock", "MHz"},
                                              {Signal::Batch, "Batch", "decoding requests"},
                                              {Signal::Waiting, "Waiting", "requests"}};
constexpr SignalLook kPrefillLook{Signal::Prefill, "Batch", "prompt tokens in the step"};

/// A prefill instance decodes nothing: its batch is the prompt tokens it computes.
bool only_prefills(const Comparison& c, InstanceId id) {
  bool prefills = false;
  for (const Run& run : c.runs) {
    if (!run.timeline) continue;
    const auto any = [&](Signal signal) {
      const Series series = run.timeline->series(id, signal);
      return std::any_of(series.begin(), series.end(), [](double v) { return v > 0.0; });
    };
    if (any(Signal::Batch)) return false;
    prefills = prefills || any(Signal::Prefill);
  }
  return prefills;
}

/// Averages neighbours until at most `points` are left.
Series thinned(const Series& series, std::size_t points) {
  const std::size_t group = (series.size() + points - 1) / points;
  if (group <= 1) return series;
  Series out;
  for (std::size_t i = 0; i < series.size(); i += group) {
    double sum = 0.0;
    int n = 0;
    for (std::size_t k = i; k < std::min(i + group, series.size()); ++k) {
      if (std::isnan(series[k])) continue;
      sum += series[k];
      ++n;
    }
    out.push_back(n == 0 ? std::nan("") : sum / n);
  }
  return out;
}

Line line_of(std::size_t run, std::size_t colour, const Timeline& timeline, const Series& full, std::size_t points) {
  const Series series = thinned(full, points);
  const double width = timeline.interval_s() * static_cast<double>(full.size()) /
                       static_cast<double>(std::max<std::size_t>(1, series.size()));
  Line line{.run = run, .colour = colour, .points = {}, .end_label = {}};
  const auto known = [&](std::size_t i) { return i < series.size() && !std::isnan(series[i]); };
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double from = static_cast<double>(i) * width;
    if (known(i) && !known(i + 1) && (i == 0 || !known(i - 1))) {  // alone, it is drawn as long as its interval
      line.points.emplace_back(from, series[i]);
      line.points.emplace_back(from + width, series[i]);
    } else {
      line.points.emplace_back(from + 0.5 * width, series[i]);
    }
  }
  return line;
}

double end_of(const Comparison& c) {
  double end = 0.0;
  for (const Run& run : c.runs) {
    if (run.timeline) end = std::max(end, run.timeline->interval_s() * static_cast<double>(run.timeline->intervals()));
  }
  return end;
}

template <typename F>
std::string over_time(const Comparison& c, const SignalLook& look, const std::string& name, int width, int height,
                      std::size_t points, bool labels, F&& series_of) {
  LineChart chart;
  chart.name = name;
  chart.width = width;
  chart.height = height;
  chart.x = time_axis(end_of(c));
  double low = 1e300;
  double high = 0.0;
  const auto add = [&](std::size_t i) {
    const Run& run = c.runs[i];
    if (!run.timeline) return;
    const Series full = series_of(*run.timeline);
    if (std::all_of(full.begin(), full.end(), [](double v) { return std::isnan(v); })) return;
    Line line = line_of(i, c.colour(i), *run.timeline, full, points);
    for (const auto& [x, y] : line.points) {
      if (std::isnan(y)) continue;
      low = std::min(low, y);
      high = std::max(high, y);
    }
    if (labels) {
      // The mean over the whole run, as in the table; samples are only single moments.
      const double booked = run.file.summary.mean_power.value();
      line.end_label = std::isnan(booked) ? run.label : fmt::format("{}, mean {} W", run.label, number(booked, 4));
    }
    chart.lines.push_back(std::move(line));
  };
  add(c.baseline);
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    if (i != c.baseline) add(i);
  }
  if (chart.lines.empty()) return {};
  // Power and counts start at zero, so that heights compare; clocks move within a band far from it.
  const bool from_zero = look.signal != Signal::Clock;
  chart.y =
      linear_axis(from_zero ? 0.0 : low, std::max(high, from_zero ? 1.0 : low + 1.0), height > 200 ? 5 : 3, look.unit);
  return svg(chart);
}

std::string instance_name(const journal::Instance& i) {
  return fmt::format("{} {}: {} × {}", journal::name_of(i.spec.role), i.id.value(), i.spec.tensor_parallel,
                     i.spec.gpu.name);
}

constexpr int kWide = 1160;
constexpr int kNarrow = 560;  ///< on a phone, so that its letters stay legible

/// A picture over the page's whole width, and once more for a phone.
std::string over_page(const std::string& attributes, const std::string& title, const char* unit,
                      const std::string& wide, const std::string& narrow) {
  return fmt::format("<div class=\"wide screen\"{0}>{1}</div><div class=\"wide phone\"{0}>{2}</div>", attributes,
                     figure(title, unit, wide), figure(title, unit, narrow));
}

/// Instances over time: one plot per run with scaling.
std::string phase_plots(const Comparison& c) {
  std::string out;
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    const Run& run = c.runs[i];
    if (run.phases.empty()) continue;
    const auto rows = lanes(run.phases, run.file.facts.instances);
    RowChart chart;
    chart.name = fmt::format("Engines of {} over time", run.label);
    chart.run = i;
    chart.colour = c.colour(i);
    chart.x = time_axis(std::max(end_of(c), run.file.summary.sim.virtual_s));
    for (const auto& [id, row] : rows) {
      chart.rows.resize(std::max(chart.rows.size(), row + 1));
      for (const auto& f : run.file.facts.instances) {
        if (f.id == id) chart.rows[row] = fmt::format("{} × {}", f.spec.tensor_parallel, f.spec.gpu.name);
      }
    }
    for (const PhaseSpan& span : run.phases) {
      const std::size_t row = rows.at(span.instance);
      if (row >= kMaxInstances) continue;
      const std::string phase(journal::name_of(span.phase));
      chart.stretches.push_back(
          {row, span.from_s, span.to_s, phase,
           fmt::format("engine {}: {} for {}, from {}", span.instance.value(), phase,
                       duration_ms((span.to_s - span.from_s) * 1e3), duration_ms(span.from_s * 1e3))});
    }
    chart.rows.resize(std::min(chart.rows.size(), kMaxInstances));
    const std::string wide = svg(chart);
    chart.width = kNarrow;
    out += over_page(fmt::format(" data-r=\"{}\"", i), run.label, "GPUs of each engine", wide, svg(chart));
  }
  if (out.empty()) return out;
  std::string keys;
  for (const char* phase : {"spawning", "warming", "serving", "draining"}) {
    keys += fmt::format(
        "<span class=\"r0\"><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\"><rect class=\"{0}\" x=\"1\" "
        "y=\"1\" width=\"20\" height=\"10\"/></svg>{0}</span>",
        phase);
  }
  return "<h3>Engines</h3><p class=\"note\">Engines of one size that were not there at the same time share a row. All "
         "four phases draw power.</p><p class=\"keys\">" +
         keys + "</p>" + out;
}

/// Runs without room for their names next to their dots, from the least energy on.
std::string unnamed_keys(const Comparison& c, const DotChart& chart) {
  std::string out;
  for (const Dot* dot : unnamed(chart)) {
    out += fmt::format("<span data-r=\"{}\"><i class=\"swatch r{}\"></i>{}</span>", dot->run, c.colour(dot->run),
                       escape(dot->label));
  }
  return out.empty() ? out
                     : "<p class=\"note\">No room for these names; from the least energy on:</p><p class=\"keys\">" +
                           out + "</p>";
}

}  // namespace

std::string energy_plots(const Comparison& c) {
  double joules = 0.0;
  bool split = false;
  for (const Run& run : c.runs) {
    const auto& e = run.file.summary.energy;
    joules = std::max(joules, e.total.value());  // unknown ones are NaN, which is not more
    split = split || e.prefill.value() + e.decode.value() > 0.0;
  }
  if (joules <= 0.0) return "<p class=\"note\">No energy was booked in these runs.</p>";
  const Scaled unit = scaled(joules, "J");
  BarChart bars;
  bars.name = "Energy of each run by phase";
  bars.unit = unit.unit;
  bars.parts = split ? std::vector<std::string>{"prefill", "decode", "idle"} : std::vector<std::string>{"busy", "idle"};
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    const auto& e = c.runs[i].file.summary.energy;
    if (std::isnan(e.total.value())) continue;
    Bar bar{.run = i,
            .colour = c.colour(i),
            .label = c.runs[i].label,
            .parts = {},
            .total = number(e.total.value() * unit.factor, 4) + " " + unit.unit};
    if (split) {
      bar.parts = {e.prefill.value() * unit.factor, e.decode.value() * unit.factor, e.idle.value() * unit.factor};
    } else {
      bar.parts = {e.busy.value() * unit.factor, e.idle.value() * unit.factor};
    }
    const double versus = c.versus(c.runs[i]).energy;
    if (i != c.baseline && std::isfinite(versus)) bar.total += " (" + change(versus) + ")";
    bars.bars.push_back(std::move(bar));
  }
  std::string out = "<div class=\"pair\">" + figure("Energy by phase", unit.unit, svg(bars));

  if (c.runs.size() > 1) {
    DotChart dots;
    dots.name = "Attainment against energy, one dot per run";
    double low = 1e300;
    double floor = 1.0;
    for (std::size_t i = 0; i < c.runs.size(); ++i) {
      const auto& s = c.runs[i].file.summary;
      if (std::isnan(s.energy.total.value()) || std::isnan(s.slo.all)) continue;
      dots.dots.push_back({i, c.colour(i), c.runs[i].label, s.energy.total.value() * unit.factor, s.slo.all * 100.0});
      low = std::min(low, s.energy.total.value() * unit.factor);
      floor = std::min(floor, s.slo.all);
    }
    const double high = joules * unit.factor;
    const double spread = std::max(high - low, high * 0.02);
    dots.x = linear_axis(std::max(0.0, low - spread * 0.15), high + spread * 0.15, 5, unit.unit);
    dots.y = linear_axis(std::max(0.0, std::floor(floor * 100.0 - (1.0 - floor) * 10.0 - 0.5)), 100.0, 4, "%");
    dots.x_title = "energy, " + unit.unit;
    dots.y_title = "% of arrived requests that met every SLO";
    out += figure("Attainment against energy", "up and left is better", svg(dots) + unnamed_keys(c, dots));
  }
  return out + "</div>";
}

std::string latency_plots(const Comparison& c) {
  std::string plots;
  plots += cdf(c, "Time to first token", "TTFT, share of finished requests", &journal::RunCurves::ttft, &Slo::ttft);
  plots += cdf(c, "Gap between tokens", "ITL, share of all gaps", &journal::RunCurves::itl, &Slo::itl);
  plots += cdf(c, "Mean gap of a request", "TBT, share of finished requests", &journal::RunCurves::tbt, &Slo::tbt);
  plots += cdf(c, "End to end", "E2E, share of finished requests", &journal::RunCurves::e2e, &Slo::e2e);
  if (plots.empty()) return "<p class=\"note\">No latency curves were recorded.</p>";
  return "<h3>Latency distributions</h3><p class=\"note\">Share of values at or below each latency. The vertical scale "
         "is stretched towards the tail: 90, 99 and 99.9 % are equally far apart.</p><div class=\"pair\">" +
         plots + "</div>";
}

std::string time_plots(const Comparison& c) {
  std::map<std::int32_t, std::string> instances;
  std::size_t lines = 0;
  double interval = 0.0;
  for (const Run& run : c.runs) {
    if (!run.timeline) continue;
    for (const InstanceId id : run.timeline->instances()) {
      instances.try_emplace(id.value(), fmt::format("instance {}", id.value()));
      lines += 3;
    }
    interval = std::max(interval, run.timeline->interval_s());
  }
  std::string out = "<section><h2>Over time</h2>";
  if (instances.empty()) return out + "<p class=\"note\">No time series was recorded.</p></section>";
  for (const Run& run : c.runs) {
    for (const auto& i : run.file.facts.instances) {
      if (const auto it = instances.find(i.id.value()); it != instances.end()) it->second = instance_name(i);
    }
  }
  const std::size_t points = std::clamp<std::size_t>(kPointBudget / std::max<std::size_t>(1, lines), 40, 320);

  out += fmt::format("<p class=\"note\">Each point is the mean of the samples of at least {}.</p>",
                     duration_ms(interval * 1e3));
  const auto power = [&](int width, std::size_t most, bool labels) {
    return over_time(c, kLooks[0], "Power of the fleet over time", width, 260, most, labels,
                     [](const Timeline& t) { return t.fleet(Signal::Power); });
  };
  out += over_page("", "Power of the fleet", "W", power(kWide, 320, true), power(kNarrow, 160, false)) +
         "<div class=\"triple\">";
  for (const SignalLook& look : {kLooks[1], kLooks[2], kLooks[3]}) {
    const char* what = look.signal == Signal::Clock   ? "fleet mean, MHz"
                       : look.signal == Signal::Batch ? "fleet, decoding requests"
                                                      : "fleet, requests";
    out += figure(look.title, what,
                  over_time(c, look, fmt::format("{} of the fleet over time", look.title), 380, 170, 320, false,
                            [&](const Timeline& t) { return t.fleet(look.signal); }));
  }
  out += "</div>";
  if (const std::string phases = phase_plots(c); !phases.empty()) {
    // The same number is another engine in each run, and most were there for minutes only.
    return out + phases +
           "<p class=\"note\">Each engine's power, clock and batch are in the runs' timeseries.csv.</p></section>";
  }
  out += "<h3>Each instance</h3>";
  std::size_t drawn = 0;
  for (const auto& [id, name] : instances) {
    if (drawn++ == kMaxInstances) break;
    out += "<h4>" + escape(name) + "</h4><div class=\"triple\">";
    const SignalLook& batch = only_prefills(c, InstanceId(id)) ? kPrefillLook : kLooks[2];
    for (const SignalLook& look : {kLooks[0], kLooks[1], batch}) {
      out += figure(look.title, look.unit,
                    over_time(c, look, fmt::format("{} of {} over time", look.title, name), 380, 150, points, false,
                              [&](const Timeline& t) { return t.series(InstanceId(id), look.signal); }));
    }
    out += "</div>";
  }
  if (instances.size() > kMaxInstances) {
    out += fmt::format("<p class=\"note\">{} more instances are in the runs' timeseries.csv, not drawn here.</p>",
                       instances.size() - kMaxInstances);
  }
  return out + "</section>";
}

}  // namespace wattle::report
