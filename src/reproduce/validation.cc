#include "reproduce/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "reproduce/freesh.h"
#include "reproduce/throttllem.h"
#include "reproduce/voltanallm.h"

namespace wattle::reproduce {
namespace {

/// A section of an evaluation whose rows are scored on the validation page.
struct WholeRuns {
  std::string_view system;
  Result<reproduce::Section> (*make)();
  const char* set;
  const char* gpu;
  std::string_view needs;  ///< prefix of file paths under the data folder that it needs
  bool in_view;  ///< a hand chose constants or conventions with these rows in view (see in_view): they count as fitted
};
constexpr std::string_view kPanels = "VoltanaLLM/paper_main_result_digitised";
constexpr auto kWholeRuns = std::to_array<WholeRuns>({
    {"voltanallm", reproduce::voltanallm_main, "VoltanaLLM/whole-runs", "a100-80g", kPanels, true},
    {"voltanallm", reproduce::voltanallm_left_out, "VoltanaLLM/left-out", "a100-80g", kPanels, false},
    {"throttllem", reproduce::throttllem::saturation, "throttLL'eM/table-II", "a100-40g",
     "azure-llm-2023/AzureLLMInferenceTrace_conv.csv", true},
    {"freesh", reproduce::freesh::windows, "FREESH/pool-windows", "a100-80g", "LLM_Serving_FREESH/milp_oracle_", false},
});

bool present(const std::string& data, std::string_view needs) {
  const auto path = std::filesystem::path(data) / needs;
  std::error_code none;
  return std::ranges::any_of(std::filesystem::directory_iterator(path.parent_path(), none), [&](const auto& entry) {
    return entry.path().filename().string().starts_with(path.filename().string());
  });
}

bool percentage(const reproduce::Row& row) { return row.unit == "%"; }

/// Energies at fixed clocks are scored as VoltanaLLM/fixed-clocks; KV blocks are an input of the scenarios, and the p99
/// at maximum load is the search criterion.
bool scored_elsewhere(const reproduce::Row& row) {
  return (row.id.contains("/sglang_") && row.unit == "J") || row.unit == "blocks" || row.id.ends_with("/e2e_slo");
}

/// Constants were chosen by hand with some models' panels of VoltanaLLM's figure (rows fig13/MODEL/...) in view.
bool in_view(const reproduce::Row& row) {
  constexpr std::string_view kFigure = "fig13/";
  if (!row.id.starts_with(kFigure)) return true;
  const std::string_view rest = std::string_view(row.id).substr(kFigure.size());
  return fidelity::voltanallm_in_view(rest.substr(0, rest.find('/')));
}

/// "fig13/x/rps75/voltana/energy" in J is row "fig13/x/rps75/voltana", quantity "energy [J]".
fidelity::ScoredRow scored(const reproduce::Row& row, const WholeRuns& of) {
  const auto slash = row.id.rfind('/');
  fidelity::ScoredRow made;
  made.set = of.set;
  made.row = row.id.substr(0, slash);
  made.gpu = of.gpu;
  made.quantity = fmt::format("{} [{}]", row.id.substr(slash + 1), row.unit);
  made.fitted = of.in_view && in_view(row);
  made.measured = *row.published;
  made.simulated = row.ours;
  made.error = percentage(row) ? row.difference() / 100.0 : row.relative();
  return made;
}

/// A row of a whole run as what lists of seen rows hold.
fidelity::Experiment as_seen(const fidelity::ScoredRow& row) {
  fidelity::Experiment made;
  made.set = row.set;
  made.row = row.row;
  made.gpu = row.gpu;
  made.quantities = {{row.quantity, row.measured}};
  made.in_view = row.fitted;
  return made;
}

}  // namespace

Result<Validation> validation(const std::string& data, const fidelity::Catalog& catalog, const fidelity::SeenRows& seen,
                              unsigned threads) {
  auto all = fidelity::collect(data, catalog);
  if (!all) return std::unexpected(all.error());
  Validation made;
  fidelity::keep_seen(all->experiments, seen);
  auto of_sets = fidelity::score(all->experiments, catalog, threads, true);
  auto rows = std::move(of_sets.rows);
  for (const WholeRuns& of : kWholeRuns) {
    if (!present(data, of.needs)) continue;  // `collect` names it absent
    auto section = of.make();
    if (!section) return std::unexpected(section.error());
    for (const reproduce::Row& row : section->rows) {
      if (!row.published || scored_elsewhere(row)) continue;
      if (!percentage(row) && std::isnan(row.relative())) continue;  // 0 is published: nothing to be relative to
      auto one = scored(row, of);
      // Panels come from the folder; the other tables are in the code, the same wherever the data lie.
      if (of.needs == kPanels) one.fitted = one.fitted && seen.contains(as_seen(one));
      rows.push_back(std::move(one));
    }
    for (const auto& [reason, lines] : section->left_out) all->left_out[{of.set, reason}] += lines;
    for (const reproduce::Target& target : section->targets) {
      made.of_runs.push_back({fmt::format("{}: {}", of.system, target.name), target.wanted, target.value, target.met});
    }
    made.whole_runs.emplace(of.set, std::move(*section));
  }
  made.absent = all->absent();
  made.scores = fidelity::scores_of(std::move(rows));
  std::ranges::move(of_sets.infeasible, std::back_inserter(made.scores.infeasible));
  return made;
}

Result<std::vector<fidelity::Experiment>> whole_runs_in_view(const std::string& data) {
  std::vector<fidelity::Experiment> made;
  if (!present(data, kPanels)) return made;
  const auto rows = published_rows();
  if (!rows) return std::unexpected(rows.error());
  for (const reproduce::Row& row : *rows) {
    if (row.published && !scored_elsewhere(row)) made.push_back(as_seen(scored(row, kWholeRuns.front())));
  }
  return made;
}

}  // namespace wattle::reproduce
