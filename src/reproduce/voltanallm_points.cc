#include "reproduce/voltanallm_points.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "base/csv.h"
#include "config/locate.h"
#include "experiment/simulate.h"
#include "fidelity/experiment.h"

namespace wattle::reproduce {

namespace {

constexpr auto kSystems = std::to_array<PublishedSystem>({
    {kMaximum, "static-max", "frequency.clock_mhz=max"},
    {"sglang_1005", "static-sweet", "frequency.clock_mhz=1005"},
    {kControlled, "voltanallm", "frequency.clocks_mhz=1005,max"},
});

template <typename Entry, std::size_t N>
const Entry* known(const std::array<Entry, N>& entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

/// Why a line is no point that can be run; empty: it can.
std::string unknown(const Point& point, const CsvReader& csv) {
  if (point.model == nullptr) return fmt::format("no published objectives of {}", csv.field(0));
  if (point.lengths == nullptr) return fmt::format("unknown lengths of {}", csv.field(1));
  if (point.system == nullptr) return fmt::format("unknown system {}", csv.field(3));
  return {};
}

Result<void> read_points(const PublishedFile& file, PublishedPoints& to) {
  constexpr std::array<std::string_view, 7> kColumns{
      "model", "dataset", "rps", "system", "energy_j", "ttft_attainment_pct", "itl_attainment_pct"};
  auto csv = CsvReader::open(file.text, file.path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return {};
    Point point;
    point.model = known(kModels, csv->field(0));
    point.lengths = known(kLengths, csv->field(1));
    point.system = known(kSystems, csv->field(3));
    const auto rate = csv->whole(2, 1, 10'000);
    if (!rate) return std::unexpected(rate.error());
    point.rate = *rate;
    for (const auto& [column, low, high, member] : {std::tuple(std::size_t{4}, 1.0, 1e12, &Point::energy_j),
                                                    std::tuple(std::size_t{5}, 0.0, 100.0, &Point::ttft_percent),
                                                    std::tuple(std::size_t{6}, 0.0, 100.0, &Point::itl_percent)}) {
      if (csv->is_absent(column)) continue;
      const auto value = csv->number(column, low, high);
      if (!value) return std::unexpected(value.error());
      point.*member = *value;
    }
    if (const std::string reason = unknown(point, *csv); !reason.empty()) {
      ++to.left_out[reason];
    } else {
      to.points.push_back(point);
    }
  }
}

}  // namespace

Result<PublishedPoints> published_points() {
  PublishedPoints published;
  std::vector<std::string> panels = fidelity::voltanallm_panels(config::data_dir());
  if (panels.empty()) panels.emplace_back("VoltanaLLM/paper_main_result_digitised.csv");  // the default
  for (const std::string& name : panels) {
    const auto file = published_file(name.c_str());
    if (!file) return std::unexpected(file.error());
    if (auto ok = read_points(*file, published); !ok) return std::unexpected(std::move(ok.error()));
  }
  return published;
}

Result<SimulatedPoint> simulate_point(const Point& point, const PointRuns& runs) {
  std::vector<std::string> set{point.system->clocks};
  set.insert(set.end(), runs.recipe.begin(), runs.recipe.end());
  const auto recipe = published_recipe(point.system->recipe, set);
  if (!recipe) return std::unexpected(recipe.error());
  SimulatedPoint mean;
  for (int draw = 1; draw <= runs.draws; ++draw) {
    std::vector<std::string> drawn{
        fmt::format("seed={}", draw),
        fmt::format("workload.requests={:.0f}", static_cast<double>(point.rate) * runs.seconds)};
    drawn.insert(drawn.end(), runs.scenario.begin(), runs.scenario.end());
    const auto scenario = published_scenario(*point.model, *point.lengths, point.rate, drawn);
    if (!scenario) return std::unexpected(scenario.error());
    auto run = experiment::prepare_run(*scenario, *recipe, config::data_dir());
    if (!run) return std::unexpected(run.error());
    const auto result = sim::simulate(std::move(run->setup));
    // The mean over draws of the ledger's energy.
    mean.energy_j = mean.energy_j + published_energy(result.summary).value() / runs.draws;
    mean.ttft_percent += 100.0 * result.summary.slo.ttft / runs.draws;
    mean.itl_percent += 100.0 * result.summary.slo.tbt / runs.draws;
  }
  return mean;
}

Result<std::vector<SimulatedPoint>> simulate_points(const std::vector<Point>& points, const PointRuns& runs) {
  std::vector<SimulatedPoint> ours;
  for (const Point& point : points) {
    const auto simulated = simulate_point(point, runs);
    if (!simulated) return std::unexpected(simulated.error());
    ours.push_back(*simulated);
  }
  return ours;
}

void PointErrors::merge(const PointErrors& other) {
  for (const auto member :
       {&PointErrors::energies, &PointErrors::controlled_energies, &PointErrors::savings, &PointErrors::attainments}) {
    (this->*member).insert((this->*member).end(), (other.*member).begin(), (other.*member).end());
  }
  best_saving = std::max(best_saving, other.best_saving);
}

double mean_size(const std::vector<double>& errors) {
  double sum = 0.0;
  for (const double e : errors) sum += std::abs(e);
  return errors.empty() ? 0.0 : sum / static_cast<double>(errors.size());
}

double worst_size(const std::vector<double>& errors) {
  double most = 0.0;
  for (const double e : errors) most = std::max(most, std::abs(e));
  return most;
}

std::map<std::string_view, PointErrors> errors_of(const std::vector<Point>& points,
                                                  const std::vector<SimulatedPoint>& ours) {
  std::map<std::string_view, PointErrors> errors;
  std::map<std::tuple<std::string_view, std::string_view, std::int64_t>, std::size_t> maximum;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& p = points[i];
    PointErrors& of = errors[p.model->llm];
    if (p.energy_j) {
      of.energies.push_back(ours[i].energy_j / *p.energy_j - 1.0);
      if (p.system->name == kControlled) of.controlled_energies.push_back(of.energies.back());
    }
    const auto attainment = [&](const std::optional<double>& published, double simulated) {
      if (published && *published > 90.0) of.attainments.push_back(simulated - *published);
    };
    attainment(p.ttft_percent, ours[i].ttft_percent);
    attainment(p.itl_percent, ours[i].itl_percent);
    if (p.system->name == kMaximum) maximum[{p.model->llm, p.lengths->id, p.rate}] = i;
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& p = points[i];
    const auto top = maximum.find({p.model->llm, p.lengths->id, p.rate});
    if (p.system->name != kControlled || top == maximum.end()) continue;
    PointErrors& of = errors[p.model->llm];
    const double saving = 100.0 * (1.0 - ours[i].energy_j / ours[top->second].energy_j);
    of.best_saving = std::max(of.best_saving, saving);
    const auto& highest = points[top->second].energy_j;
    if (p.energy_j && highest) of.savings.push_back(saving - 100.0 * (1.0 - *p.energy_j / *highest));
  }
  return errors;
}

}  // namespace wattle::reproduce
