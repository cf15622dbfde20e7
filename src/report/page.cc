#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "journal/decimal.h"
#include "journal/names.h"
#include "report/text.h"

namespace wattle::report {
namespace {

std::string chip(const Comparison& c, std::size_t i) {
  const bool baseline = i == c.baseline && c.runs.size() > 1;
  return fmt::format(
      "<button type=\"button\" class=\"chip\" data-r=\"{}\" aria-pressed=\"true\"><i class=\"swatch "
      "r{}\"></i>{}{}</button>",
      i, c.colour(i), escape(c.runs[i].label), baseline ? "<em>baseline</em>" : "");
}

std::string slo_text(const Slo& slo) {
  std::string out;
  const auto add = [&](const char* name, const std::optional<Span>& limit) {
    if (!limit) return;
    out += fmt::format("{}{} ≤ {}", out.empty() ? "" : ", ", name, duration_ms(limit->millis()));
  };
  add("TTFT", slo.ttft);
  add("ITL", slo.itl);
  add("TBT", slo.tbt);
  add("E2E", slo.e2e);
  return out.empty() ? "none stated" : out;
}

/// "4 × a100-80g, llama-3.1-8b (2 prefill, 2 decode)"; of engines that come and go, how many and of which sizes.
std::string fleet_text(const Run& run) {
  const auto& facts = run.file.facts;
  std::map<std::string, int> gpus;
  std::map<std::string_view, int> roles;
  std::set<std::string> llms;
  for (const auto& i : facts.instances) {
    gpus[i.spec.gpu.name] += i.spec.tensor_parallel;
    roles[journal::name_of(i.spec.role)] += 1;
    llms.insert(i.spec.llm.name);
  }
  std::string out;
  if (!run.phases.empty()) {
    std::set<std::string> sizes;
    for (const auto& i : facts.instances) sizes.insert(fmt::format("{} × {}", i.spec.tensor_parallel, i.spec.gpu.name));
    out = fmt::format("{} engine{} that came and went ({})", facts.instances.size(),
                      facts.instances.size() == 1 ? "" : "s", fmt::join(sizes, ", "));
    for (const auto& llm : llms) out += ", " + llm;
    return out;
  }
  for (const auto& [gpu, count] : gpus) out += fmt::format("{}{} × {}", out.empty() ? "" : " + ", count, gpu);
  for (const auto& llm : llms) out += ", " + llm;
  std::string parts;
  for (const auto& [role, count] : roles) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count, role);
  return out.empty() ? "no instances recorded" : fmt::format("{} ({})", out, parts);
}

std::string scenario_title(const Comparison& c) {
  std::set<std::string> scenarios;
  for (const Run& run : c.runs) scenarios.insert(run.file.facts.scenario);
  constexpr std::size_t kNamed = 3;
  return scenarios.size() <= kNamed ? fmt::format("{}", fmt::join(scenarios, ", "))
                                    : fmt::format("{} scenarios", scenarios.size());
}

/// What a run was of, in the heading's words.
struct Circumstance {
  const char* name;    ///< of a column, where runs differ
  const char* before;  ///< what the heading says around it
  const char* after;
  std::string (*of)(const Run& run);
};
constexpr Circumstance kCircumstances[] = {
    {"Scenario", "", "", [](const Run& run) { return run.file.facts.scenario; }},
    {"Fleet", "", "", [](const Run& run) { return fleet_text(run); }},
    {"SLO", "SLO: ", "", [](const Run& run) { return slo_text(run.file.facts.slo); }},
    {"Requests", "", " requests", [](const Run& run) { return whole(run.file.summary.requests.arrived); }}};

/// The length of all runs: "41.4 s of traffic", "37.2 s to 41.4 s of traffic".
std::string length_text(const Comparison& c) {
  const auto [least, most] =
      std::ranges::minmax_element(c.runs, {}, [](const Run& run) { return run.file.summary.sim.virtual_s; });
  const std::string from = duration_ms(least->file.summary.sim.virtual_s * 1e3);
  const std::string to = duration_ms(most->file.summary.sim.virtual_s * 1e3);
  return (from == to ? to : from + " to " + to) + " of traffic";
}

/// What all runs have in common as one line; what they differ in as a table, a row for those that are alike.
std::string circumstances(const Comparison& c) {
  std::string common;
  std::vector<const Circumstance*> differ;
  for (const Circumstance& one : kCircumstances) {
    const std::string first = one.of(c.runs.front());
    if (std::ranges::any_of(c.runs, [&](const Run& run) { return one.of(run) != first; })) {
      differ.push_back(&one);
    } else if (one.name != std::string_view("Scenario")) {  // which is the title
      common += fmt::format("<span>{}{}{}</span>", one.before, escape(first), one.after);
    }
  }
  std::string out = fmt::format("<p class=\"facts\">{}<span>{}</span></p>", common, length_text(c));
  if (differ.empty()) return out;
  std::vector<std::pair<std::vector<std::string>, std::string>> rows;  // cells, runs
  for (const Run& run : c.runs) {
    std::vector<std::string> cells;
    for (const Circumstance* one : differ) cells.push_back(one->of(run));
    auto row = std::ranges::find(rows, cells, &std::pair<std::vector<std::string>, std::string>::first);
    if (row == rows.end()) row = rows.insert(row, {std::move(cells), ""});
    row->second += (row->second.empty() ? "" : ", ") + run.label;
  }
  out += "<div class=\"scroll\"><table class=\"differ\"><thead><tr><th>Runs differ in</th>";
  for (const Circumstance* one : differ) out += fmt::format("<th>{}</th>", one->name);
  out += "</tr></thead><tbody>";
  for (const auto& [cells, runs] : rows) {
    out += "<tr><th>" + escape(runs) + "</th>";
    for (const std::string& cell : cells) out += "<td>" + escape(cell) + "</td>";
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string heading(const Comparison& c) {
  std::set<std::string> kinds;
  for (const Run& run : c.runs) kinds.insert(run.kind());
  std::string badges;
  for (const auto& kind : kinds) badges += fmt::format("<span class=\"badge\">{}</span>", escape(kind));
  return fmt::format("<header><p class=\"kicker\">Wattle run report {}</p><h1>{}</h1>{}</header>", badges,
                     escape(scenario_title(c)), circumstances(c));
}

std::string findings(const Comparison& c) {
  std::string out;
  if (!c.same_work) {
    out +=
        "<p class=\"warning\">These runs differ in scenario or seed, so their energy is not for the same work. Compare "
        "tokens per joule rather than joules.</p>";
  }
  for (const Run& run : c.runs) {
    const auto& s = run.file.summary;
    for (const auto& [what, share] : s.unknown_rates()) {
      out += fmt::format(
          "<p class=\"warning\">{}: for {} of its energy the {} is unknown; totals use the last known value, requests "
          "served then have none.</p>",
          escape(run.label), percent(share), what);
    }
    if (std::isnan(s.energy.total.value())) {
      out += fmt::format("<p class=\"warning\">{}: its energy was not metered, so energy and carbon are unknown.</p>",
                         escape(run.label));
    } else if (s.unmetered_s > 0.0) {
      out += fmt::format(
          "<p class=\"note\">{}: {} of instance time were not metered; what was drawn then is no request's, and in the "
          "totals as far as a meter that was read later had counted it.</p>",
          escape(run.label), duration_ms(s.unmetered_s * 1e3));
    }
  }
  for (const Run& run : c.runs) {
    // Who samples does so to the end: the file may have lost its last rows.
    const double length = run.file.summary.sim.virtual_s;
    if (!run.timeline || length - run.timeline->end_s() <= 3.0 * run.timeline->sample_period_s()) continue;
    if (run.timeline->sample_period_s() <= 0.0) continue;
    out += fmt::format("<p class=\"warning\">{}: timeseries.csv has no sample after {} of {}; is it whole?</p>",
                       escape(run.label), duration_ms(run.timeline->end_s() * 1e3), duration_ms(length * 1e3));
  }
  const Run& base = c.runs[c.baseline];
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    if (i == c.baseline) continue;
    const Run& run = c.runs[i];
    const Versus v = c.versus(run);
    if (v.did_less) {
      const auto& a = run.file.summary;
      const auto& b = base.file.summary;
      out += fmt::format(
          "<li class=\"r{}\"><b>{}</b> did less than {}, so no saving is stated: {} requests finished with {} tokens, "
          "there {} with {}</li>",
          c.colour(i), escape(run.label), escape(base.label), a.requests.finished, a.tokens.output, b.requests.finished,
          b.tokens.output);
      continue;
    }
    const double points = std::round(v.attainment * 1000.0) / 10.0;
    const std::string attainment =
        std::isnan(points) ? "attainment not comparable"
        : points == 0.0    ? fmt::format("the same attainment ({})", percent(run.file.summary.slo.all))
                           : fmt::format("{} attainment ({} points)", percent(run.file.summary.slo.all),
                                         (points < 0 ? "\u2212" : "+") + fmt::format("{:.1f}", std::abs(points)));
    const double saved = std::round(-v.energy * 1000.0) / 10.0;
    const std::string energy = !std::isfinite(v.energy) ? "energy not comparable with"
                               : saved == 0.0           ? "as much energy as"
                               : saved > 0.0            ? fmt::format("{:.1f}\u202f% less energy than", saved)
                                                        : fmt::format("{:.1f}\u202f% more energy than", -saved);
    out += fmt::format("<li class=\"r{}\"><b>{}</b> {} {}, at {}</li>", c.colour(i), escape(run.label), energy,
                       escape(base.label), attainment);
  }
  if (out.find("<li") != std::string::npos) {
    const std::size_t list = out.find("<li");
    out = out.substr(0, list) + "<ul class=\"findings\">" + out.substr(list) + "</ul>";
  }
  return out;
}

std::string provenance(const Comparison& c) {
  std::string out =
      "<section><h2>Where this comes from</h2><div class=\"scroll\"><table><thead><tr><th>Run</th><th>Driver</th>"
      "<th>Scenario</th><th>Seed</th><th>Run length</th><th>Wall time</th><th>Iterations</th>"
      "<th>Journal digest</th><th>Directory</th></tr></thead><tbody>";
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    const Run& run = c.runs[i];
    const auto& s = run.file.summary;
    out += fmt::format(
        "<tr data-r=\"{}\"><th><i class=\"swatch r{}\"></i>{}</th><td>{}</td><td "
        "class=\"text\">{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td>{}</td><td><code>{}</code></td><td class=\"text\"><code>{}</code></td></tr>",
        i, c.colour(i), escape(run.label), escape(run.kind()), escape(run.file.facts.scenario), run.file.facts.seed,
        duration_ms(s.sim.virtual_s * 1e3), duration_ms(s.sim.wall_s * 1e3), whole(s.sim.iterations),
        journal::digest_text(s.journal_digest), escape(run.directory));
  }
  out +=
      "</tbody></table></div><p class=\"note\">Attainment counts arrived requests: one that was rejected, failed, "
      "cancelled or had not left misses. ITL attainment is the share of all gaps between tokens. Energy is all GPUs of "
      "the fleet over the whole run, idle included.";
  return out + " Two runs with equal digests took the same decisions and had the same outcomes.</p></section>";
}

}  // namespace

std::string html(const Comparison& c) {
  const std::string title = escape(scenario_title(c));
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
      "<meta name=\"color-scheme\" content=\"light dark\"/><title>Wattle: " +
      title + "</title><style>";
  out += style();
  out += "</style></head><body><main>";
  out += heading(c);
  out += findings(c);
  out += "<nav aria-label=\"Runs shown\">";
  for (std::size_t i = 0; i < c.runs.size(); ++i) out += chip(c, i);
  out += "<span class=\"hint\">click to hide or show a run</span></nav>";
  if (c.runs.size() > kAppearances + 1) {
    out += fmt::format(
        "<p class=\"note\">{} runs beside the baseline: colours and dashes tell {} apart and then repeat. Hide runs, "
        "or point at a line.</p>",
        c.runs.size() - 1, kAppearances);
  }
  out +=
      "<section><h2>Energy, carbon and cost</h2>" + energy_table(c) + energy_plots(c) + usage_tables(c) + "</section>";
  out += "<section><h2>Service</h2>" + service_table(c) + group_tables(c) + latency_plots(c) + "</section>";
  out += site_plots(c);
  out += time_plots(c);
  out += provenance(c);
  out += "</main><div id=\"tip\" hidden=\"hidden\"></div><script>";
  out += script();
  out += "</script></body></html>\n";
  return out;
}

}  // namespace wattle::report
