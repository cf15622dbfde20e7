// FREESH's released windows: the published formulation against every optimum that the data set holds.
#include <fmt/core.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/csv.h"
#include "reproduce/freesh.h"

namespace wattle::reproduce::freesh {

namespace {

constexpr double kJoulesPerMwh = 3.6e9;

Result<plan::PoolsPlan> solve(const plan::PoolsData& data, std::size_t window, bool carbon, std::size_t partition) {
  auto options = published_options(carbon);
  options.relative_gap = 0.0;
  const auto day = plan_windows(data, options, {window}, only_partition(partition));
  if (!day) return std::unexpected(day.error());
  return day->plans.front();
}

}  // namespace

Result<Section> windows() {
  Section section;
  section.source = "The release's windows";
  section.note =
      "Planned, nothing served: the published formulation, each partition alone, against the optima of the data set "
      "(milp_oracle_beta2.csv; as many windows as the file holds), each plan checked independently. An empty cell is "
      "an infeasible window.";
  const auto file = released_file("milp_oracle_beta2", "milp_oracle_*");
  if (!file) return std::unexpected(file.error());
  const auto data = load_data();
  if (!data) return std::unexpected(data.error());
  // Available data of each partition: both objectives or one.
  std::vector<std::string> names;
  for (const char* of : {"recomputed_carbon_p", "recomputed_energy_j_p"}) {
    for (std::size_t p = 1; p <= data->whole().partitions.size(); ++p) names.push_back(fmt::format("{}{}", of, p));
  }
  const std::string_view header = std::string_view(file->text).substr(0, file->text.find('\n'));
  std::erase_if(names, [&](const std::string& name) { return header.find(name) == std::string_view::npos; });
  if (names.empty())
    return bad_input(file->path, "its header has no column recomputed_carbon_p1 or recomputed_energy_j_p1");
  std::vector<std::string_view> columns = {"window_30min"};
  columns.insert(columns.end(), names.begin(), names.end());
  auto csv = CsvReader::open(file->text, file->path, columns);
  if (!csv) return std::unexpected(csv.error());
  double worst = 0.0, misjudged = 0.0, infeasible = 0.0, without = 0.0;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    const auto window = csv->whole(0, static_cast<std::int64_t>(data->first_window(kSlotsPerWindow)),
                                   static_cast<std::int64_t>(data->end_window(kSlotsPerWindow)) - 1);
    if (!window) return std::unexpected(window.error());
    for (std::size_t i = 1; i < columns.size(); ++i) {
      const bool carbon = columns[i].find("carbon") != std::string_view::npos;
      const auto partition = static_cast<std::size_t>(columns[i].back() - '1');
      const auto plan = solve(*data, static_cast<std::size_t>(*window), carbon, partition);
      if (!plan) return std::unexpected(plan.error());
      const bool has_one = !csv->field(i).empty();
      infeasible += has_one ? 0.0 : 1.0;
      without += plan->found() ? 0.0 : 1.0;
      misjudged += plan->found() == has_one ? 0.0 : 1.0;
      if (!has_one || !plan->found()) continue;
      const auto optimum = csv->number(i, -1e15, 1e15);
      if (!optimum) return std::unexpected(optimum.error());
      // Carbon is in lb/MWh x W x s there.
      const double ours = carbon ? plan->objective * kJoulesPerMwh / kGramsPerKwhInLbsPerMwh / 1e3 : plan->objective;
      add(section, fmt::format("{}/window_{}/objective", columns[i], *window), carbon ? "lb/MWh W s" : "J", *optimum,
          ours);
      worst = std::max(worst, std::abs(ours - *optimum) / std::max(1e-300, std::abs(*optimum)));
    }
  }
  add(section, "windows_without_a_plan", "", infeasible, without);
  section.targets.push_back({"largest error of an optimum", "1e-6", worst, worst <= 1e-6});
  section.targets.push_back({"windows taken for feasible or not, wrongly", "0", misjudged, misjudged == 0.0});
  return section;
}

}  // namespace wattle::reproduce::freesh
