#include "fidelity/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace wattle::fidelity {
namespace {

std::string percent(double v) { return std::isfinite(v) ? fmt::format("{:.1f} %", 100.0 * v) : std::string(); }

double median_of(std::vector<double> v) {
  std::ranges::sort(v);
  const std::size_t half = v.size() / 2;
  return v.size() % 2 == 1 ? v[half] : 0.5 * (v[half - 1] + v[half]);
}

struct MarkRule {
  const char* name;
  std::vector<const char*> sets;  ///< parts of set names
  const char* quantity;
  double limit;
  bool median;
};

const std::vector<MarkRule>& rules() {
  static const std::vector<MarkRule> all{
      {"H100 clock sweep: power", {"/clock-sweep"}, "power_w", 0.06, false},
      {"H100 clock sweep: TPOT p99", {"/clock-sweep"}, "tpot_p99_ms", 0.10, false},
      {"H100 clock sweep: TTFT p99", {"/clock-sweep"}, "ttft_p99_ms", 0.15, false},
      {"A100 2P2D: energy", {"VoltanaLLM/"}, "energy_j", 0.08, false},
      {"ML.ENERGY H100 dense: power", {"mlenergy/h100-dense"}, "power_w", 0.08, false},
      {"ML.ENERGY H100 dense: ITL", {"mlenergy/h100-dense"}, "itl_p50_ms", 0.12, false},
      {"ML.ENERGY H100 dense: J/token", {"mlenergy/h100-dense"}, "energy_per_token_j", 0.12, false},
      {"End-to-end H100 and H200 dense: TTFT",
       {"end-to-end-h100-dense", "end-to-end-h200-dense"},
       "ttft_mean_ms",
       0.15,
       true},
      {"End-to-end H100 and H200 dense: TPOT",
       {"end-to-end-h100-dense", "end-to-end-h200-dense"},
       "tpot_mean_ms",
       0.15,
       true},
      {"GEMM kernels, 16-bit", {"-gemm-bf16"}, "latency_ms", 0.10, true},
      {"Attention kernels", {"-attention"}, "latency_ms", 0.10, true},
  };
  return all;
}

constexpr const char* kHow =
    "A row is one published or measured number; *ours* is what the simulated hardware gives under the same condition.\n"
    "Rows marked *fitted* may have been used by `wattle fit`; all others never were: one row in four of every fitted "
    "set\n"
    "is held out by a hash of its text, and whole sets and models (all but two of ML.ENERGY's) are never fitted. "
    "Errors are relative to "
    "the\n"
    "measured value. Power models side by side, on our step times: the MFU law of Vidur-Energy (idle + (max - idle) x\n"
    "min(1, (mfu/0.45)^0.7)) and three constants (idle, TDP for prompts, 65 % of TDP for decode).\n";

constexpr const char* kWhy =
    "## What is assumed, and where it is weak\n\n"
    "- **TTFT at fixed concurrency** (the missed end-to-end mark): the samples state a mean without saying how "
    "requests\n"
    "  started, how many there were or how prompts were batched, and the clients disagree: SGLang's rows lie above "
    "what\n"
    "  one burst of all prompts costs, vLLM's below what one prompt waits. We start all requests at once, send ten\n"
    "  per slot of concurrency, count the first burst, and use lengths that are fixed (\"gap-analysis\" sources) or "
    "vary by\n"
    "  6 % (the others). TPOT of the same runs, which does not depend on that, is within its mark.\n"
    "- **One chip differs from the next** by several percent in power: ML.ENERGY's Qwen3-14B draws 443 W where its\n"
    "  Llama-3.1-8B draws 486 W at the same memory rate, and its TP4 runs draw a tenth less per card than the H100 "
    "clock\n"
    "  sweep's at the same work. No model of shapes alone gets all three.\n"
    "- The serving framework's CPU time is one pair of factors per GPU kind; vLLM, SGLang and TensorRT-LLM differ. "
    "8-bit\n"
    "  runs of small models on H200 and B200 come out slow for that reason.\n"
    "- Prompt lengths of ML.ENERGY are not published: 300 tokens (1,500 for code completion), from the batch its KV "
    "cache\n"
    "  held. Arrivals of the H100 sweep are taken as Poisson and its token budget per step as 768, which of 512, 768, "
    "1,024\n"
    "  and 2,048 suits its fitted rows best. A p99 over a few hundred requests is noisy on both sides.\n"
    "- Kernel tables give no clock. Where they give power (H200, B200) our clock falls at TDP as the card's does; "
    "those\n"
    "  without power (H100, A100) are taken at the top clock, because they are faster than TDP allows with the power "
    "that\n"
    "  serving shows: their operands draw less.\n"
    "- Decode attention on A100 splits its work by a heuristic that our straight line through KV tokens averages "
    "over.\n"
    "- Block-scaled 8-bit products below 0.5 ms are left out (the readings are launches), and kernel power below 0.05 "
    "ms\n"
    "  (the meter reads low).\n"
    "- A100: no clock sweep is published. Its voltage floor is put where VoltanaLLM finds the optimum of both phases; "
    "the\n"
    "  two optimum rows are therefore no test of the model. GH200 has no measurement at all.\n"
    "- Splitwise's tables were taken on an older, slower software stack; they are reported, not fitted.\n"
    "- The 4 x H100 node includes two CPU sockets: what its idle 700 W leave beside four parked GPUs is added to "
    "ours.\n"
    "- Not compared yet: FREESH's pool profile, DynamoLLM Tables I-III, throttLL'eM Table II, LLMServingSim, "
    "DistServe,\n"
    "  Jetson, and the node's runs with other lengths.\n";

}  // namespace

std::vector<Mark> marks(const Scores& scores) {
  std::vector<Mark> all;
  for (const MarkRule& rule : rules()) {
    std::vector<double> errors;
    for (const ScoredRow& row : scores.rows) {
      if (row.fitted || row.quantity != rule.quantity) continue;
      if (std::ranges::any_of(rule.sets, [&](const char* s) { return row.set.find(s) != std::string::npos; })) {
        errors.push_back(std::abs(row.error));
      }
    }
    if (errors.empty()) continue;
    double value = 0.0;
    if (rule.median) {
      value = median_of(errors);
    } else {
      for (const double e : errors) value += e / static_cast<double>(errors.size());
    }
    all.push_back({rule.name, fmt::format("{} <= {:.0f} %", rule.median ? "median" : "MAPE", 100 * rule.limit),
                   rule.limit, value, errors.size()});
  }
  return all;
}

std::vector<const ScoredRow*> worst(const Scores& scores, std::size_t count, std::size_t per_set) {
  std::vector<const ScoredRow*> rows;
  for (const ScoredRow& row : scores.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, [](const ScoredRow* a, const ScoredRow* b) {
    return std::abs(std::log(std::max(1e-9, 1.0 + a->error))) > std::abs(std::log(std::max(1e-9, 1.0 + b->error)));
  });
  std::map<std::string, std::size_t> taken;
  std::vector<const ScoredRow*> chosen;
  for (const ScoredRow* row : rows) {
    if (chosen.size() >= count) break;
    if (taken[row->set]++ < per_set) chosen.push_back(row);
  }
  return chosen;
}

std::string to_markdown(const Scores& scores, const std::vector<std::string>& absent) {
  std::string text = "# Validation\n\nWritten by `wattle validate --write docs/validation.md`; do not edit.\n\n";
  text += kHow;
  text += "\n## Marks, on rows never fitted\n\n| mark | target | reached | rows | |\n|---|---|---|---|---|\n";
  for (const Mark& m : marks(scores)) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", m.name, m.target, percent(m.value), m.rows,
                        m.met() ? "met" : fmt::format("missed by {}", percent(m.value - m.limit)));
  }
  text +=
      "\n## Every set\n\n| set | quantity | | rows | MAPE | median | p90 | bias | MFU law | three constants |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const ScoredSet& s : scores.sets) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", s.set, s.quantity,
                        s.fitted ? "fitted" : "never fitted", s.rows, percent(s.mape), percent(s.median),
                        percent(s.p90), percent(s.bias), percent(s.mfu_power_law), percent(s.three_constants));
  }
  if (scores.infeasible > 0) {
    text += fmt::format("\n{} rows ran on hardware where our model says the weights or one request do not fit.\n",
                        scores.infeasible);
  }
  if (!absent.empty()) {
    text += "\nSets not found:";
    for (const std::string& name : absent) text += " " + name;
    text += "\n";
  }
  text += "\n## Worst rows\n\n| set | row | quantity | measured | ours | error |\n|---|---|---|---|---|---|\n";
  for (const ScoredRow* row : worst(scores, 25, 2)) {
    text += fmt::format("| {} | {} | {} | {:.4g} | {:.4g} | {:+.0f} % |\n", row->set, row->row, row->quantity,
                        row->measured, row->simulated, 100.0 * row->error);
  }
  return text + "\n" + kWhy;
}

std::string to_html(const Scores& scores) {
  constexpr double kSize = 260.0;
  constexpr double kEdge = 24.0;
  std::map<std::pair<std::string, std::string>, std::vector<const ScoredRow*>> groups;
  for (const ScoredRow& row : scores.rows) {
    if (row.measured > 0.0 && row.simulated > 0.0) groups[{row.set, row.quantity}].push_back(&row);
  }
  std::string text =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Wattle validation</title><style>"
      "body{font:14px system-ui,sans-serif;margin:2em;color:#222}figure{display:inline-block;margin:0 1em 1em 0}"
      "figcaption{font-size:12px;max-width:260px}circle{fill:#c2542d;fill-opacity:.55}circle.f{fill:#2d6cc2;"
      "fill-opacity:.35}line{stroke:#999}rect{fill:none;stroke:#ccc}</style><h1>Simulated against measured</h1>"
      "<p>Both axes logarithmic and equal; the line is equality. Orange: rows never fitted. Blue: fitted.</p>";
  for (const auto& [key, rows] : groups) {
    double low = 1e300;
    double high = 0.0;
    for (const ScoredRow* row : rows) {
      low = std::min({low, row->measured, row->simulated});
      high = std::max({high, row->measured, row->simulated});
    }
    const double span = std::max(1e-6, std::log(high / low));
    const auto at = [&](double v) { return kEdge + (kSize - 2 * kEdge) * std::log(v / low) / span; };
    text += fmt::format(
        "<figure><svg width=\"{0}\" height=\"{0}\"><rect x=\"{1}\" y=\"{1}\" width=\"{2}\" "
        "height=\"{2}\"/><line x1=\"{1}\" y1=\"{3}\" x2=\"{3}\" y2=\"{1}\"/>",
        kSize, kEdge, kSize - 2 * kEdge, kSize - kEdge);
    const std::size_t step = std::max<std::size_t>(1, rows.size() / 300);
    for (std::size_t i = 0; i < rows.size(); i += step) {
      text += fmt::format("<circle{} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>", rows[i]->fitted ? " class=\"f\"" : "",
                          at(rows[i]->measured), kSize - at(rows[i]->simulated));
    }
    text += fmt::format("</svg><figcaption>{}<br>{}: {:.3g} to {:.3g}, {} rows</figcaption></figure>", key.first,
                        key.second, low, high, rows.size());
  }
  return text + "</html>\n";
}

}  // namespace wattle::fidelity
