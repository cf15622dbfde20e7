#include "reproduce/validation.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "reproduce/freesh.h"
#include "reproduce/throttllem.h"
#include "reproduce/voltanallm.h"

namespace wattle::reproduce {
namespace {

/// A section of an evaluation whose rows are worth scoring.
struct WholeRuns {
  std::string_view system;
  Result<reproduce::Section> (*make)();
  const char* set;
  const char* gpu;
  const char* needs;  ///< a file under the data folder
  bool in_view;  ///< a hand chose constants or conventions with these rows in view (see in_view): they count as fitted
};
constexpr auto kWholeRuns = std::to_array<WholeRuns>({
    {"voltanallm", reproduce::voltanallm_main, "VoltanaLLM/whole-runs", "a100-80g",
     "VoltanaLLM/paper_main_result_digitised.csv", true},
    {"voltanallm", reproduce::voltanallm_left_out, "VoltanaLLM/left-out", "a100-80g",
     "VoltanaLLM/paper_main_result_digitised_3b.csv", false},
    {"throttllem", reproduce::throttllem::saturation, "throttLL'eM/table-II", "a100-40g",
     "azure-llm-2023/AzureLLMInferenceTrace_conv.csv", true},
    {"freesh", reproduce::freesh::windows, "FREESH/pool-windows", "a100-80g",
     "LLM_Serving_FREESH/milp_oracle_beta2.csv", false},
});

bool percentage(const reproduce::Row& row) { return row.unit == "%"; }

/// Energies at fixed clocks are the rows of VoltanaLLM/fixed-clocks; KV blocks are what the scenarios set memory aside
/// for, and a maximum load's p99 what it is searched for by.
bool scored_elsewhere(const reproduce::Row& row) {
  return (row.id.contains("/sglang_") && row.unit == "J") || row.unit == "blocks" || row.id.ends_with("/e2e_slo");
}

/// Of VoltanaLLM's figure a hand saw two models' panels.
bool in_view(const reproduce::Row& row) {
  return !row.id.starts_with("fig13/") || row.id.contains("/llama-3.1-8b/") || row.id.contains("/ministral-3b/");
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

}  // namespace

Result<Validation> validation(const std::string& data, const fidelity::Catalog& catalog, unsigned threads) {
  auto all = fidelity::collect(data, catalog);
  if (!all) return std::unexpected(all.error());
  Validation made;
  made.absent = std::move(all->absent);
  auto of_sets = fidelity::score(all->experiments, catalog, threads, true);
  auto rows = std::move(of_sets.rows);
  for (const WholeRuns& of : kWholeRuns) {
    if (!std::filesystem::exists(std::filesystem::path(data) / of.needs)) continue;  // `collect` names it absent
    const auto section = of.make();
    if (!section) return std::unexpected(section.error());
    for (const reproduce::Row& row : section->rows) {
      if (row.published && !scored_elsewhere(row)) rows.push_back(scored(row, of));
    }
    for (const reproduce::Target& target : section->targets) {
      made.of_runs.push_back({fmt::format("{}: {}", of.system, target.name), target.wanted, target.value, target.met});
    }
  }
  made.scores = fidelity::scores_of(std::move(rows));
  made.scores.infeasible += of_sets.infeasible;
  return made;
}

}  // namespace wattle::reproduce
