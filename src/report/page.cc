#include "report/page.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "journal/decimal.h"
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
  std::map<std::string, int> roles;
  std::set<std::string> llms;
  constexpr const char* kRoles[] = {"colocated", "prefill", "decode"};
  for (const auto& i : facts.instances) {
    gpus[i.spec.gpu.name] += i.spec.tensor_parallel;
    roles[kRoles[static_cast<std::size_t>(i.spec.role)]] += 1;
    llms.insert(i.spec.llm.name);
  }
  std::string out;
  if (!run.phases.empty()) {
    std::set<std::string> sizes;
    for (const auto& i : facts.instances) sizes.insert(fmt::format("{} × {}", i.spec.tensor_parallel, i.spec.gpu.name));
    out = fmt::format("{} engines that came and went ({})", facts.instances.size(), fmt::join(sizes, ", "));
    for (const auto& llm : llms) out += ", " + llm;
    return out;
  }
  for (const auto& [gpu, count] : gpus) out += fmt::format("{}{} × {}", out.empty() ? "" : " + ", count, gpu);
  for (const auto& llm : llms) out += ", " + llm;
  std::string parts;
  for (const auto& [role, count] : roles) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count, role);
  return out.empty() ? "no instances recorded" : fmt::format("{} ({})", out, parts);
}

std::string heading(const Comparison& c) {
  std::set<std::string> scenarios;
  std::set<std::string> kinds;
  for (const Run& run : c.runs) {
    scenarios.insert(run.file.facts.scenario);
    kinds.insert(run.kind());
  }
  const auto& first = c.runs.front().file;
  std::string badges;
  for (const auto& kind : kinds) badges += fmt::format("<span class=\"badge\">{}</span>", escape(kind));
  const std::string title =
      scenarios.size() == 1 ? first.facts.scenario : fmt::format("{} scenarios", scenarios.size());
  std::string out =
      fmt::format("<header><p class=\"kicker\">Wattle run report {}</p><h1>{}</h1>", badges, escape(title));
  out += fmt::format(
      "<p class=\"facts\"><span>{}</span><span>SLO: {}</span><span>{} requests</span><span>{} of traffic</span></p>",
      escape(fleet_text(c.runs.front())), escape(slo_text(first.facts.slo)), whole(first.summary.requests.arrived),
      duration_ms(first.summary.sim.virtual_s * 1e3));
  return out + "</header>";
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
    if (const double share = s.energy.unknown_carbon.value() / s.energy.total.value(); share > 0.0) {
      out += fmt::format(
          "<p class=\"warning\">{}: of {} of its energy nobody knows the carbon intensity; it is booked at the last "
          "known one.</p>",
          escape(run.label), percent(share));
    }
    if (std::isnan(s.energy.total.value())) {
      out += fmt::format("<p class=\"warning\">{}: nobody metered its energy, so energy and carbon are unknown.</p>",
                         escape(run.label));
    } else if (s.unmetered_s > 0.0) {
      out += fmt::format(
          "<p class=\"note\">{}: {} of instance time were not metered; what was drawn then is no request's, and in the "
          "totals as far as a meter that was read later had counted it.</p>",
          escape(run.label), duration_ms(s.unmetered_s * 1e3));
    }
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
    const std::string energy = !std::isfinite(v.energy) ? "energy not comparable"
                               : saved == 0.0           ? "as much energy"
                               : saved > 0.0            ? fmt::format("{:.1f}\u2009% less energy", saved)
                                                        : fmt::format("{:.1f}\u2009% more energy", -saved);
    out += fmt::format("<li class=\"r{}\"><b>{}</b> {} than {}, at {}</li>", c.colour(i), escape(run.label), energy,
                       escape(base.label), attainment);
  }
  // "as much energy than" would be wrong English.
  const std::string wrong = "as much energy than";
  for (std::size_t at = out.find(wrong); at != std::string::npos; at = out.find(wrong)) {
    out.replace(at, wrong.size(), "as much energy as");
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
      "cancelled or "
      "had not left misses. ITL attainment is the share of all gaps between tokens. Energy is all GPUs of the fleet "
      "over "
      "the whole run, idle included.";
  return out + " Two runs with equal digests took the same decisions and had the same outcomes.</p></section>";
}

}  // namespace

std::string html(const Comparison& c) {
  std::string title = escape(c.runs.front().file.facts.scenario);
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
