// Tables I to III: which configurations meet the objectives, and which of them takes the least energy.
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "config/locate.h"
#include "fidelity/paper_tables.h"
#include "reproduce/catalog.h"
#include "reproduce/dynamollm.h"

namespace wattle::reproduce::dynamollm {

namespace {

using fidelity::EnergyCell;
using fidelity::EnergyRow;

std::optional<std::size_t> least(const EnergyRow& row, double EnergyCell::*wh) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    if (!std::isnan(row.cells[i].*wh) && (!best || row.cells[i].*wh < row.cells[*best].*wh)) best = i;
  }
  return best;
}

/// Steps between two cells of a line: to another TP degree, to another clock.
int apart(std::size_t a, std::size_t b) {
  constexpr int kClocks = 4;
  const int x = static_cast<int>(a), y = static_cast<int>(b);
  return std::abs(x / kClocks - y / kClocks) + std::abs(x % kClocks - y % kClocks);
}

Result<Section> table(const char* source, std::string_view prefix) {
  const auto scenario = hour_scenario();
  if (!scenario) return std::unexpected(scenario.error());
  const auto catalog = load_catalog(config::project());
  if (!catalog) return std::unexpected(catalog.error());
  Section section{source,
                  "One simulated instance of the hour's engine under Poisson arrivals for 30 s, at the lengths of "
                  "docs/validation.md; p99 of TTFT and of a request's mean TBT against Table IV. Wh: what the instance "
                  "draws while one request runs (the paper does not say what its Wh are of; eight GPUs that wait with "
                  "the model loaded take 880 W there, 7.3 Wh in 30 s). Its 2.0 GHz are 1980 MHz here.",
                  {},
                  {},
                  {}};
  int cells = 0, alike = 0, ours_only = 0, theirs_only = 0, lines = 0, same = 0, near = 0;
  for (const EnergyRow& row : fidelity::dynamollm_energy(*catalog, scenario->scenario.engine)) {
    if (!row.name.starts_with(prefix)) continue;
    const std::string name = row.name.substr(prefix.size());
    for (const EnergyCell& cell : row.cells) {
      const bool theirs = !std::isnan(cell.published_wh), ours = !std::isnan(cell.ours_wh);
      ++cells;
      alike += theirs == ours ? 1 : 0;
      ours_only += ours && !theirs ? 1 : 0;
      theirs_only += theirs && !ours ? 1 : 0;
      if (!theirs && !ours) continue;
      section.rows.push_back(
          {fmt::format("{}/tp{}/{}mhz{}", name, cell.tp, cell.mhz, ours ? "" : ", misses the objectives"), "Wh",
           theirs ? std::optional(cell.published_wh) : std::nullopt, cell.ours_wh});
    }
    const auto published = least(row, &EnergyCell::published_wh), found = least(row, &EnergyCell::ours_wh);
    ++lines;
    if (!found) continue;
    same += *found == *published ? 1 : 0;
    near += apart(*found, *published) <= 1 ? 1 : 0;
    const EnergyCell &a = row.cells[*published], &b = row.cells[*found];
    section.rows.push_back({name + "/least/tp", "GPUs", static_cast<double>(a.tp), static_cast<double>(b.tp)});
    section.rows.push_back({name + "/least/clock", "MHz", static_cast<double>(a.mhz), static_cast<double>(b.mhz)});
  }
  section.rows.push_back({"feasible_here_alone", "cells", 0.0, static_cast<double>(ours_only)});
  section.rows.push_back({"feasible_in_the_paper_alone", "cells", 0.0, static_cast<double>(theirs_only)});
  const auto target = [&](const char* what, const char* of, int all, int found) {
    section.targets.push_back({what, fmt::format("all {} {}", all, of), static_cast<double>(found), found == all});
  };
  target("feasible_alike", "cells", cells, alike);
  target("least_in_the_same_cell", "lines", lines, same);
  target("least_within_one_cell", "lines", lines, near);
  return section;
}

}  // namespace

Result<Section> by_class() { return table("Table I, 2,000 prompt tokens/s", "I "); }
Result<Section> by_load() { return table("Table II, class MM; medium is Table I's", "II "); }
Result<Section> by_model() { return table("Table III, class MM, 2,000 prompt tokens/s", "III "); }

}  // namespace wattle::reproduce::dynamollm
