#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <vector>

#include "report/page.h"
#include "report/text.h"

namespace wattle::report {
namespace {

std::string row_start(const Comparison& c, std::size_t i) {
  return fmt::format("<tr data-r=\"{}\"{}><th><i class=\"swatch r{}\"></i>{}</th>", i,
                     i == c.baseline && c.runs.size() > 1 ? " class=\"baseline\"" : "", c.colour(i),
                     escape(c.runs[i].label));
}

std::string cell(const std::string& text) { return "<td>" + text + "</td>"; }

/// A saving is blue and a rise orange; the sign says it too.
std::string change_cell(double relative, bool baseline) {
  if (baseline) return "<td class=\"dim\">–</td>";
  const bool known = std::isfinite(relative) && std::abs(relative) >= 0.0005;
  return fmt::format("<td class=\"{}\">{}</td>", !known ? "dim" : relative < 0.0 ? "less" : "more", change(relative));
}

std::string share_cell(double share) {
  if (std::isnan(share)) return "<td class=\"dim\">–</td>";
  return fmt::format("<td class=\"share\">{}<span class=\"meter\"><span style=\"width:{:.2f}%\"></span></span></td>",
                     percent(share), std::clamp(share, 0.0, 1.0) * 100.0);
}

std::string latency_cells(const journal::Distribution& d) {
  if (d.count == 0) return "<td class=\"dim\">–</td><td class=\"dim\">–</td><td class=\"dim\">–</td>";
  return cell(duration_ms(d.p50_ms)) + cell(duration_ms(d.p90_ms)) + cell(duration_ms(d.p99_ms));
}

/// A separate table: next to the latencies it would be wider than a screen.
std::string fairness_table(const Comparison& c) {
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>Recipe</th><th>Fairness<small>Jain, SLO met</small></th>"
      "<th>FREESH's Jain<small>tokens in time</small></th><th>violations</th><th>longest wait<small>mean</small></th>"
      "<th><small>p99</small></th></tr></thead><tbody>";
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    const auto& s = c.runs[i].file.summary;
    const auto& f = s.fairness;
    out += row_start(c, i);
    const std::string unknown = "<td class=\"dim\">–</td>";
    out += std::isnan(s.fairness_jain) ? unknown : cell(number(s.fairness_jain, 3));
    out += std::isnan(f.jain) ? unknown + unknown : cell(number(f.jain, 3)) + cell(percent(f.violation_rate));
    out += f.waiting.count == 0 ? unknown + unknown
                                : cell(duration_ms(f.waiting.mean_ms)) + cell(duration_ms(f.waiting.p99_ms));
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

/// Runs, by index, whose rows of one kind fit into one table.
struct Alike {
  std::vector<std::size_t> runs;
  std::string what;  ///< meaning of the names in these rows; empty: obvious
};

/// "prompts below 256 and 1024 tokens"
std::string borders_text(const char* of, const std::vector<std::int32_t>& below) {
  return below.empty() ? std::string() : fmt::format("{} below {} tokens", of, fmt::join(below, ", "));
}

std::string classes_text(const Classifier& classes) {
  std::string out = borders_text("prompts", classes.prompt_below());
  const std::string answers = borders_text("answers", classes.output_below());
  if (!out.empty() && !answers.empty()) out += ", ";
  return out + answers;
}

/// Separate tables if `same` returns that equal names mean different things. Runs without such rows are left out.
template <typename Has, typename Same>
std::vector<Alike> apart(const Comparison& c, Has&& has, Same&& same) {
  std::vector<Alike> all;
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    if (!has(c.runs[i])) continue;
    const auto found =
        std::ranges::find_if(all, [&](const Alike& one) { return same(c.runs[one.runs.front()], c.runs[i]); });
    if (found != all.end()) {
      found->runs.push_back(i);
    } else {
      all.push_back({{i}, {}});
    }
  }
  return all;
}

template <typename Has>
std::vector<Alike> by_classes(const Comparison& c, Has&& has) {
  auto all = apart(
      c, has, [](const Run& a, const Run& b) { return a.file.facts.service.classes == b.file.facts.service.classes; });
  for (Alike& one : all) one.what = classes_text(c.runs[one.runs.front()].file.facts.service.classes);
  return all;
}

std::string what_note(const Alike& alike) {
  return alike.what.empty() ? std::string() : "<p class=\"note\">" + escape(alike.what) + "</p>";
}

}  // namespace

std::string energy_table(const Comparison& c) {
  double joules = 0.0;
  double grams = 0.0;
  for (const Run& run : c.runs) {
    joules = std::max(joules, run.file.summary.energy.total.value());
    grams = std::max(grams, run.file.summary.carbon.value());
  }
  const Scaled j = scaled(joules, "J");
  const Scaled g = scaled(grams, "g");
  std::string out = fmt::format(
      "<div class=\"scroll\"><table><thead><tr><th>Recipe</th><th>Energy<small>{}</small></th><th>against "
      "baseline</th><th>CO₂<small>{}</small></th><th>against baseline</th><th>Cost<small>US$</small></th><th>Output "
      "tokens per joule</th><th>Mean power<small>W</small></th><th>Mean GPUs</th><th>Mean "
      "clock<small>MHz</small></th><th>Clock changes</th></tr></thead><tbody>",
      j.unit, g.unit);
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    const auto& s = c.runs[i].file.summary;
    const Versus v = c.versus(c.runs[i]);
    const bool baseline = i == c.baseline;
    out += row_start(c, i);
    out += cell("<b>" + number(s.energy.total.value() * j.factor, 4) + "</b>") + change_cell(v.energy, baseline);
    out += cell(number(s.carbon.value() * g.factor, 4)) + change_cell(v.carbon, baseline);
    out += cell(number(s.cost.value(), 3)) + cell(number(s.tokens_per_joule, 3));
    out += cell(number(s.mean_power.value(), 4)) + cell(number(s.mean_gpus, 3));
    out += cell(number(s.clock_mean_mhz, 4)) + cell(whole(s.clock_changes));
    out += "</tr>";
  }
  out += "</tbody></table></div>";
  const double length_s = c.runs[c.baseline].file.summary.sim.virtual_s;
  if (std::ranges::any_of(c.runs, [&](const Run& run) { return run.file.summary.sim.virtual_s != length_s; })) {
    out +=
        "<p class=\"note\">Against the baseline: both until the later end of the two; the fleet that has ended idles "
        "until then.</p>";
  }
  std::string beyond;
  for (const Run& run : c.runs) {
    for (const std::string& sentence : run.file.summary.extrapolated) {
      beyond += fmt::format("<li>{}: {}</li>", escape(run.label), escape(sentence));
    }
  }
  if (beyond.empty()) return out;
  return out + "<p class=\"dim\">Extrapolated: simulated hardware beyond what was measured.</p><ul class=\"dim\">" +
         beyond + "</ul>";
}

std::string usage_tables(const Comparison& c) {
  constexpr std::size_t kMost = 64;
  struct Kind {
    const char* name;
    std::vector<journal::UsageRow> journal::Consumption::*rows;
    bool of_requests;
    const char* summary;
    bool open;             ///< false for instances, which are many and rarely of interest
    bool classes = false;  ///< the same name is another class where borders differ
  };
  using journal::Consumption;
  constexpr Kind kKinds[] = {{"Tenant", &Consumption::by_tenant, true, "By tenant", true},
                             {"Class", &Consumption::by_class, true, "By class of requests", true, true},
                             {"Site", &Consumption::by_site, false, "By site", true},
                             {"Instance", &Consumption::by_instance, false, "By instance", false}};
  std::string out;
  for (const auto& [name, rows_of, of_requests, summary, open, classes] : kKinds) {
    const auto has = [&](const Run& run) { return (run.file.summary.*rows_of).size() > 1; };
    const auto tables = classes ? by_classes(c, has) : apart(c, has, [](const Run&, const Run&) { return true; });
    if (tables.empty()) continue;
    out += fmt::format("<details{}><summary>{}</summary>", open ? " open" : "", summary);
    for (const Alike& table : tables) {
      out += what_note(table) +
             fmt::format(
                 "<div class=\"scroll\"><table><thead><tr><th>Recipe</th><th>{}</th>{}<th>Energy<small>J</small></th>"
                 "<th>CO₂<small>g</small></th><th>Cost<small>US$</small></th></tr></thead><tbody>",
                 name, of_requests ? "<th>Requests</th><th>Output tokens</th>" : "");
      for (const std::size_t i : table.runs) {
        const auto& rows = c.runs[i].file.summary.*rows_of;
        for (const auto& row : rows | std::views::take(kMost)) {
          out += row_start(c, i) + cell(escape(row.name.empty() ? "(none)" : row.name));
          if (of_requests) out += cell(whole(row.requests)) + cell(whole(row.output_tokens));
          out += cell(number(row.energy.value(), 4)) + cell(number(row.carbon.value(), 4)) +
                 cell(number(row.cost.value(), 3)) + "</tr>";
        }
      }
      out += "</tbody></table></div>";
    }
    out += "</details>";
  }
  return out;
}

std::string group_tables(const Comparison& c) {
  using Rows = std::vector<journal::ServiceRow> journal::RunSummary::*;
  const auto has = [](Rows rows) { return [rows](const Run& run) { return !(run.file.summary.*rows).empty(); }; };
  const auto same_tiers = [](const Run& a, const Run& b) {
    const auto of = [](const Run& run) {
      const auto& objectives = run.file.facts.service.objectives;
      return objectives ? objectives->tiers() : std::vector<Tier>{};
    };
    return std::ranges::equal(of(a), of(b), [](const Tier& x, const Tier& y) {
      return x.name == y.name && x.slo == y.slo && x.factor == y.factor;
    });
  };
  const Rows of_class = &journal::RunSummary::service_by_class, of_tier = &journal::RunSummary::service_by_tier;
  std::string out;
  const auto add = [&](const char* name, Rows rows, const std::vector<Alike>& tables) {
    for (const Alike& table : tables) {
      out += what_note(table) +
             fmt::format(
                 "<div class=\"scroll\"><table class=\"grouped\"><thead><tr><th rowspan=\"2\">Recipe</th>"
                 "<th rowspan=\"2\">{}</th><th rowspan=\"2\">every SLO</th><th colspan=\"3\">TTFT</th>"
                 "<th colspan=\"3\">TBT</th><th colspan=\"3\">E2E</th><th colspan=\"3\">Requests</th></tr><tr>",
                 name);
      for (int i = 0; i < 3; ++i) out += "<th class=\"first\">p50</th><th>p90</th><th>p99</th>";
      out += "<th class=\"first\">left</th><th>finished</th><th>rejected</th></tr></thead><tbody>";
      for (const std::size_t i : table.runs) {
        for (const auto& row : c.runs[i].file.summary.*rows) {
          out += row_start(c, i) + cell(escape(row.name)) + share_cell(row.attainment) + latency_cells(row.ttft) +
                 latency_cells(row.tbt) + latency_cells(row.e2e) + cell(whole(row.left)) + cell(whole(row.finished)) +
                 cell(whole(row.rejected)) + "</tr>";
        }
      }
      out += "</tbody></table></div>";
    }
  };
  add("Class", of_class, by_classes(c, has(of_class)));
  add("Tier", of_tier, apart(c, has(of_tier), same_tiers));
  return out;
}

std::string service_table(const Comparison& c) {
  const auto any = [&](auto&& f) { return std::any_of(c.runs.begin(), c.runs.end(), f); };
  // Every objective that some request of a run is held to: of another none is kept or missed.
  std::vector<Slo> slos;
  for (const Run& r : c.runs) slos.push_back(r.file.facts.service.judged(r.file.facts.slo).strictest());
  const auto stated = [&](std::optional<Span> Slo::*objective) {
    return std::ranges::any_of(slos, [&](const Slo& slo) { return (slo.*objective).has_value(); });
  };
  const bool ttft = stated(&Slo::ttft), itl = stated(&Slo::itl), tbt = stated(&Slo::tbt), e2e = stated(&Slo::e2e);
  const bool gaps = any([](const Run& r) { return r.file.summary.itl.count > 0; });
  const bool lost = any([](const Run& r) {
    const auto& q = r.file.summary.requests;
    return q.rejected + q.failed + q.cancelled + q.in_flight > 0;
  });
  const int attainments = 1 + (ttft ? 1 : 0) + (itl ? 1 : 0) + (tbt ? 1 : 0) + (e2e ? 1 : 0);
  const bool cached = any([](const Run& r) { return r.file.summary.tokens.cached_prompt > 0; });
  const int counts = (lost ? 6 : 2) + (cached ? 1 : 0);

  std::string out = fmt::format(
      "<div class=\"scroll\"><table class=\"grouped\"><thead><tr><th rowspan=\"2\">Recipe</th><th "
      "colspan=\"{}\">Attainment</th>"
      "<th colspan=\"3\">TTFT</th><th colspan=\"3\">{}</th><th colspan=\"3\">E2E</th><th colspan=\"{}\">Requests</th>"
      "</tr><tr><th>every SLO</th>",
      attainments, gaps ? "ITL" : "TBT", counts);
  for (const auto& [wanted, name] : {std::pair{ttft, "TTFT"}, {itl, "ITL"}, {tbt, "TBT"}, {e2e, "E2E"}}) {
    if (wanted) out += fmt::format("<th>{}</th>", name);
  }
  for (int i = 0; i < 3; ++i) out += "<th class=\"first\">p50</th><th>p90</th><th>p99</th>";
  out += "<th class=\"first\">arrived</th><th>finished</th>";
  if (lost) out += "<th>rejected</th><th>failed</th><th>cancelled</th><th>not left</th>";
  if (cached) out += "<th>cached<small>of prompt tokens</small></th>";
  out += "</tr></thead><tbody>";
  for (std::size_t i = 0; i < c.runs.size(); ++i) {
    const auto& s = c.runs[i].file.summary;
    const auto count = [](std::int64_t n) { return cell(whole(n)); };
    out += row_start(c, i) + share_cell(s.slo.all);
    const auto kept = [&](double share, const std::optional<Span>& objective) {
      return share_cell(objective ? share : std::nan(""));
    };
    if (ttft) out += kept(s.slo.ttft, slos[i].ttft);
    if (itl) out += kept(s.slo.itl, slos[i].itl);
    if (tbt) out += kept(s.slo.tbt, slos[i].tbt);
    if (e2e) out += kept(s.slo.e2e, slos[i].e2e);
    out += latency_cells(s.ttft) + latency_cells(gaps ? s.itl : s.tbt) + latency_cells(s.e2e);
    out += count(s.requests.arrived) + count(s.requests.finished);
    if (lost) {
      out += count(s.requests.rejected) + count(s.requests.failed) + count(s.requests.cancelled) +
             count(s.requests.in_flight);
    }
    if (cached) out += share_cell(s.tokens.cached_share());
    out += "</tr>";
  }
  return out + "</tbody></table></div>" + fairness_table(c);
}

}  // namespace wattle::report
