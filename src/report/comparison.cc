#include "report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "journal/summary_json.h"
#include "report/saving.h"

namespace wattle::report {
namespace {

namespace fs = std::filesystem;

/// Points of a plotted line: enough for a screen, and few enough to keep a page of many instances below 2 MB.
constexpr std::size_t kMaxIntervals = 320;

Result<std::vector<std::string>> expand(const std::string& path) {
  std::error_code code;
  const auto is_run = [&code](const fs::path& directory) {
    return fs::exists(directory / "run.json", code) || fs::exists(directory / "run.partial.json", code);
  };
  std::vector<std::string> found;
  if (is_run(path) || !fs::is_directory(path, code)) found.push_back(path);
  // Runs next to it: simulated for comparison.
  for (const auto& entry : fs::directory_iterator(path, code)) {
    if (is_run(entry.path())) found.push_back(entry.path().string());
  }
  if (found.empty()) {
    return bad_input(path, "neither it nor a directory in it holds a run.json; give one written by `wattle sim --out`");
  }
  std::sort(found.begin(), found.end());  // a run comes before the runs in its folder
  return found;
}

void label(std::vector<Run>& runs) {
  const auto recipe = [](const Run& r) -> const std::string& { return r.file.facts.recipe; };
  const auto all_differ = [&](auto&& name) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (name(runs[i]) == name(runs[k])) return false;
      }
    }
    return true;
  };
  const auto with_scenario = [&](const Run& r) { return fmt::format("{} ({})", recipe(r), r.file.facts.scenario); };
  const auto with_seed = [&](const Run& r) { return fmt::format("{} (seed {})", recipe(r), r.file.facts.seed); };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Run& r = runs[i];
    r.label = all_differ(recipe)          ? recipe(r)
              : all_differ(with_scenario) ? with_scenario(r)
              : all_differ(with_seed)     ? with_seed(r)
                                          : fmt::format("{} #{}", recipe(r), i + 1);
  }
  for (Run& r : runs) {
    if (!r.file.ended) r.label += ", not ended";
  }
}

/// The first that did no less than any other: what took less energy for less work is nothing to compare with.
std::size_t first_whole(const std::vector<Run>& runs) {
  const auto whole = [&](const Run& run) {
    return std::ranges::none_of(runs, [&](const Run& r) { return run.file.summary.did_less_than(r.file.summary); });
  };
  const auto found = std::ranges::find_if(runs, whole);
  return found == runs.end() ? 0 : static_cast<std::size_t>(found - runs.begin());
}

double relative(double value, double base) {
  return base == 0.0 ? std::numeric_limits<double>::quiet_NaN() : value / base - 1.0;
}

nlohmann::ordered_json json_number(double v) {
  return std::isfinite(v) ? nlohmann::ordered_json(v) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string Run::kind() const {
  const auto& driver = file.facts.driver;
  const auto& meters = file.summary.meters;
  if (driver == "sim") return "simulated";
  if (driver != "live") return driver;
  if (meters == "emulated") return "emulated";
  if (meters == "measured") return "measured live";
  return meters == "none" ? "live, energy not metered" : "live";
}

Versus Comparison::versus(const Run& run) const {
  const auto& a = run.file.summary;
  const auto& b = runs[baseline].file.summary;
  const bool less = a.did_less_than(b);
  const auto saved = [less](double run_took, double base_took) {
    return less ? std::numeric_limits<double>::quiet_NaN() : relative(run_took, base_took);
  };
  const double period_s = std::max(a.sim.virtual_s, b.sim.virtual_s);
  const Taken ours = taken_until(a, period_s), base = taken_until(b, period_s);
  return Versus{.energy = -saving_stated(a, b),
                .carbon = saved(ours.carbon.value(), base.carbon.value()),
                .cost = saved(ours.cost.value(), base.cost.value()),
                .tokens_per_joule = relative(a.tokens_per_joule, b.tokens_per_joule),
                .attainment = a.slo.all - b.slo.all,
                .did_less = less};
}

Result<Comparison> load(const std::vector<std::string>& paths, const std::string& baseline) {
  Comparison c;
  for (const std::string& path : paths) {
    auto directories = expand(path);
    if (!directories) return std::unexpected(directories.error());
    for (std::string& directory : *directories) {
      auto file = journal::read_run(directory);
      if (!file) return std::unexpected(file.error());
      Run run{.directory = directory, .label = {}, .file = std::move(*file), .phases = {}, .timeline = {}};
      if (run.file.files.decisions) {
        auto changes = read_phases((fs::path(directory) / "decisions.jsonl").string(), run.file.ended);
        if (!changes) return std::unexpected(changes.error());
        run.phases = phase_spans(std::move(*changes), run.file.facts.instances, run.file.summary.sim.virtual_s);
      }
      if (run.file.files.timeseries) {
        auto timeline = read_timeline((fs::path(directory) / "timeseries.csv").string(), kMaxIntervals, run.file.ended);
        if (!timeline) return std::unexpected(timeline.error());
        run.timeline.emplace(std::move(*timeline));
      }
      // Last: what its reader says of a row is more exact.
      if (auto whole = journal::check_sizes(directory, run.file); !whole) return std::unexpected(whole.error());
      c.runs.push_back(std::move(run));
    }
  }
  if (c.runs.empty()) return bad_input("wattle report", "give at least one run directory");
  label(c.runs);
  const auto& first = c.runs.front().file.facts;
  c.same_work = std::all_of(c.runs.begin(), c.runs.end(), [&](const Run& r) {
    return r.file.facts.scenario == first.scenario && r.file.facts.seed == first.seed;
  });
  const auto find = [&](const std::string& name) {
    return std::find_if(c.runs.begin(), c.runs.end(),
                        [&](const Run& r) { return r.label == name || r.file.facts.recipe == name; });
  };
  const auto chosen = find(baseline.empty() ? "static-max" : baseline);
  if (chosen != c.runs.end()) {
    c.baseline = static_cast<std::size_t>(chosen - c.runs.begin());
  } else if (!baseline.empty()) {
    std::string known;
    for (const Run& r : c.runs) known += (known.empty() ? "" : ", ") + r.label;
    return bad_input("--baseline", fmt::format("no run is called '{}'; there are: {}", baseline, known));
  } else if (c.same_work) {
    c.baseline = first_whole(c.runs);
  }
  return c;
}

nlohmann::ordered_json to_json(const Comparison& c) {
  using Json = nlohmann::ordered_json;
  Json runs = Json::array();
  for (const Run& run : c.runs) {
    const Versus v = c.versus(run);
    Json one = Json{{"label", run.label},
                    {"directory", run.directory},
                    {"scenario", run.file.facts.scenario},
                    {"driver", run.file.facts.driver},
                    {"kind", run.kind()},
                    {"seed", run.file.facts.seed},
                    {"ended", run.file.ended},
                    {"versus_baseline",
                     {{"did_less", v.did_less},
                      {"energy", json_number(v.energy)},
                      {"carbon", json_number(v.carbon)},
                      {"cost", json_number(v.cost)},
                      {"tokens_per_joule", json_number(v.tokens_per_joule)},
                      {"attainment", json_number(v.attainment)}}}};
    one.update(journal::to_json(run.file.summary));
    runs.push_back(std::move(one));
  }
  return Json{{"baseline", c.runs[c.baseline].label}, {"same_work", c.same_work}, {"runs", std::move(runs)}};
}

}  // namespace wattle::report
