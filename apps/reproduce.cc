// `wattle reproduce`: a paper's evaluation, each published value beside ours.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/csv.h"
#include "base/file.h"
#include "commands.h"
#include "locate.h"
#include "simulate.h"

namespace wattle::apps {

namespace {

constexpr const char* kPoints = "VoltanaLLM/paper_main_result_digitised.csv";
constexpr const char* kScenario = "voltanallm-2p2d";
constexpr double kRunSeconds = 120.0;

struct ReproduceFlags {
  std::string system;
  bool json = false;
};

struct PublishedModel {
  std::string_view name;
  const char* llm;
  int tensor_parallel;
  int ttft_ms;
  int itl_ms;
};
constexpr auto kModels = std::to_array<PublishedModel>({
    {"Ministral-3B", "ministral-3b", 1, 200, 20},
    {"Llama-3.1-8B", "llama-3.1-8b", 1, 600, 60},
    {"Qwen3-32B", "qwen3-32b", 2, 1200, 120},
});

/// Published means and standard deviations, in tokens; the scenario draws lognormal lengths with these moments.
struct PublishedLengths {
  std::string_view name;
  int prompt_mean, prompt_std, output_mean, output_std;
};
constexpr auto kLengths = std::to_array<PublishedLengths>({
    {"ShareGPT", 280, 376, 191, 209},
    {"LMSYS", 78, 133, 175, 166},
});

struct PublishedSystem {
  std::string_view name;
  const char* recipe;
};
constexpr auto kSystems = std::to_array<PublishedSystem>({
    {"sglang_1410", "static-max"},
    {"sglang_1005", "static-sweet"},
    {"voltana", "voltanallm"},
});

/// One line of the digitised figure; empty cells were hidden behind another marker.
struct Point {
  const PublishedModel* model = nullptr;
  const PublishedLengths* lengths = nullptr;
  const PublishedSystem* system = nullptr;
  std::int64_t rate = 0;
  std::optional<double> energy_j;
  std::optional<double> ttft_percent;
  std::optional<double> itl_percent;
};

struct Row {
  std::string id;
  std::string unit;
  double published = 0.0;
  double ours = 0.0;
  [[nodiscard]] double difference() const { return ours - published; }
  [[nodiscard]] double relative() const { return published == 0.0 ? 0.0 : difference() / published; }
};

struct Mark {
  std::string name;
  std::string target;
  double value = 0.0;
  bool met = false;
};

template <typename Entry, std::size_t N>
Result<const Entry*> known(const std::array<Entry, N>& entries, std::string_view name, const std::string& where) {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  if (found != entries.end()) return &*found;
  return bad_input(where, fmt::format("'{}' is none of the models, datasets and systems of the figure", name));
}

Result<std::vector<Point>> read_points(const std::string& file) {
  const auto text = read_file(file);
  if (!text) return std::unexpected(text.error());
  constexpr std::array<std::string_view, 7> kColumns{
      "model", "dataset", "rps", "system", "energy_j", "ttft_attainment_pct", "itl_attainment_pct"};
  auto csv = CsvReader::open(*text, file, kColumns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<Point> points;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return points;
    Point point;
    const auto model = known(kModels, csv->field(0), csv->where());
    const auto lengths = known(kLengths, csv->field(1), csv->where());
    const auto system = known(kSystems, csv->field(3), csv->where());
    const auto rate = csv->whole(2, 1, 10'000);
    if (!model) return std::unexpected(model.error());
    if (!lengths) return std::unexpected(lengths.error());
    if (!system) return std::unexpected(system.error());
    if (!rate) return std::unexpected(rate.error());
    point.model = *model;
    point.lengths = *lengths;
    point.system = *system;
    point.rate = *rate;
    for (const auto& [column, high, to] :
         {std::tuple(std::size_t{4}, 1e9, &Point::energy_j), std::tuple(std::size_t{5}, 100.0, &Point::ttft_percent),
          std::tuple(std::size_t{6}, 100.0, &Point::itl_percent)}) {
      if (csv->field(column).empty()) continue;
      const auto value = csv->number(column, 0.0, high);
      if (!value) return std::unexpected(value.error());
      point.*to = *value;
    }
    points.push_back(point);
  }
}

Result<journal::RunSummary> simulate_point(const Point& point) {
  const auto& m = *point.model;
  const auto& l = *point.lengths;
  const auto set = config::parse_overrides({
      fmt::format("llm={}", m.llm),
      fmt::format("workload.rate_per_s={}", point.rate),
      fmt::format("workload.requests={}", static_cast<std::int64_t>(static_cast<double>(point.rate) * kRunSeconds)),
      fmt::format("workload.prompt_mean={}", l.prompt_mean),
      fmt::format("workload.prompt_std={}", l.prompt_std),
      fmt::format("workload.output_mean={}", l.output_mean),
      fmt::format("workload.output_std={}", l.output_std),
      fmt::format("slo.ttft_ms={}", m.ttft_ms),
      fmt::format("slo.itl_ms={}", m.itl_ms),
      fmt::format("fleet.0.tensor_parallel={}", m.tensor_parallel),
      fmt::format("fleet.1.tensor_parallel={}", m.tensor_parallel),
  });
  if (!set) return std::unexpected(set.error());
  const auto home = project();
  const auto scenario = config::load_scenario(kScenario, *set, home);
  if (!scenario) return std::unexpected(scenario.error());
  const auto recipe = config::load_recipe(point.system->recipe, {}, home);
  if (!recipe) return std::unexpected(recipe.error());
  return run_simulation(*scenario, *recipe, {});
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Reproduction {
  std::vector<Row> rows;
  std::vector<Mark> marks;
};

Result<Reproduction> reproduce_voltanallm(const std::vector<Point>& points) {
  Reproduction made;
  using Place = std::tuple<std::string_view, std::string_view, std::int64_t>;
  struct Energies {
    std::optional<double> published;
    double ours = 0.0;
  };
  std::map<Place, std::map<std::string_view, Energies>> energies;
  std::vector<double> energy_errors;
  double worst_attainment = 0.0;
  for (const Point& point : points) {
    const auto summary = simulate_point(point);
    if (!summary) return std::unexpected(summary.error());
    const auto base =
        fmt::format("fig13/{}/{}/rps{}/{}", point.model->llm, point.lengths->name == "ShareGPT" ? "sharegpt" : "lmsys",
                    point.rate, point.system->name);
    const double energy = summary->energy.total.value();
    energies[{point.model->name, point.lengths->name, point.rate}][point.system->name] = {point.energy_j, energy};
    if (point.energy_j) {
      made.rows.push_back({base + "/energy", "J", *point.energy_j, energy});
      energy_errors.push_back(std::abs(made.rows.back().relative()));
    }
    const auto attainment = [&](const char* name, const std::optional<double>& published, double ours) {
      if (!published) return;
      made.rows.push_back({fmt::format("{}/{}", base, name), "%", *published, 100.0 * ours});
      if (*published > 90.0) worst_attainment = std::max(worst_attainment, std::abs(made.rows.back().difference()));
    };
    attainment("ttft_attainment", point.ttft_percent, summary->slo.ttft);
    attainment("itl_attainment", point.itl_percent, summary->slo.itl);
  }
  double worst_saving = 0.0;
  double best_saving = 0.0;
  for (const auto& [place, by_system] : energies) {
    const auto controlled = by_system.find("voltana");
    const auto maximum = by_system.find("sglang_1410");
    if (controlled == by_system.end() || maximum == by_system.end()) continue;
    const double ours = 100.0 * (1.0 - controlled->second.ours / maximum->second.ours);
    best_saving = std::max(best_saving, ours);
    if (!controlled->second.published || !maximum->second.published) continue;
    const double published = 100.0 * (1.0 - *controlled->second.published / *maximum->second.published);
    const auto& [model, dataset, rate] = place;
    const auto* entry = &*std::ranges::find(kModels, model, &PublishedModel::name);
    made.rows.push_back(
        {fmt::format("fig13/{}/{}/rps{}/saving", entry->llm, dataset == "ShareGPT" ? "sharegpt" : "lmsys", rate), "%",
         published, ours});
    worst_saving = std::max(worst_saving, std::abs(ours - published));
  }
  const double energy_error = 100.0 * median(energy_errors);
  made.marks = {
      {"energy_median_error", "<= 8 %", energy_error, energy_error <= 8.0},
      {"saving_worst_difference", "<= 4 points", worst_saving, worst_saving <= 4.0},
      {"attainment_worst_difference", "<= 5 points where published above 90 %", worst_attainment,
       worst_attainment <= 5.0},
      {"best_saving", "36.3±4 %", best_saving, std::abs(best_saving - 36.3) <= 4.0},
  };
  return made;
}

void print(const Reproduction& made) {
  fmt::print("{:<66} {:>10} {:>10} {:>9} {:>8}\n", "row", "published", "ours", "diff", "rel");
  for (const Row& row : made.rows) {
    fmt::print("{:<66} {:>10.1f} {:>10.1f} {:>+9.1f} {:>+7.1f}%\n", row.id + " [" + row.unit + "]", row.published,
               row.ours, row.difference(), 100.0 * row.relative());
  }
  for (const Mark& mark : made.marks) {
    fmt::print("{}: {:.1f} (target {}): {}\n", mark.name, mark.value, mark.target, mark.met ? "met" : "not met");
  }
  fmt::print(
      "Simulated. Published: digitised from the paper's figure, +-1 %. Lengths: lognormal with the published mean "
      "and standard deviation, outputs at most 2048 tokens; requests arrive for {:.0f} s. ITL attainment is the "
      "share of all token gaps.\n",
      kRunSeconds);
}

int run(const ReproduceFlags& flags) {
  if (flags.system != "voltanallm") {
    return fail({ErrorKind::BadInput, flags.system, "no evaluation of that name; known: voltanallm"});
  }
  const std::string data = data_dir();
  if (data.empty()) {
    return fail(
        {ErrorKind::BadInput, "WATTLE_DATA", fmt::format("not set; point it at the folder that holds {}", kPoints)});
  }
  const auto points = read_points((std::filesystem::path(data) / kPoints).string());
  if (!points) return fail(points.error());
  const auto made = reproduce_voltanallm(*points);
  if (!made) return fail(made.error());
  if (!flags.json) {
    print(*made);
    return 0;
  }
  nlohmann::ordered_json object;
  object["system"] = flags.system;
  object["rows"] = nlohmann::ordered_json::array();
  for (const Row& row : made->rows) {
    object["rows"].push_back({{"id", row.id},
                              {"source", "Figure 13, digitised"},
                              {"unit", row.unit},
                              {"published", row.published},
                              {"ours", row.ours},
                              {"difference", row.difference()},
                              {"relative", row.relative()}});
  }
  object["marks"] = nlohmann::ordered_json::array();
  for (const Mark& mark : made->marks) {
    object["marks"].push_back({{"name", mark.name}, {"target", mark.target}, {"value", mark.value}, {"met", mark.met}});
  }
  fmt::print("{}\n", object.dump(2));
  return 0;
}

}  // namespace

void add_reproduce(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ReproduceFlags>();
  auto* command = app.add_subcommand("reproduce", "a paper's evaluation: published value, ours, difference");
  command->add_option("system", flags->system, "voltanallm")->required();
  command->add_flag("--json", flags->json, "one JSON object on stdout");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace wattle::apps
