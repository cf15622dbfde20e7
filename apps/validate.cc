// `wattle validate`: the model's error against every measured or published number we have.
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "config/locate.h"
#include "reproduce/catalog.h"
#include "reproduce/validation.h"

namespace wattle::apps {
namespace {

using nlohmann::ordered_json;

struct ValidateFlags {
  std::string data;
  std::vector<std::string> out;
  bool json = false;
  unsigned threads = 2;
};

ordered_json number(double v) { return std::isfinite(v) ? ordered_json(v) : ordered_json(nullptr); }

ordered_json to_json(const reproduce::Validation& all) {
  const fidelity::Scores& scores = all.scores;
  ordered_json sets = ordered_json::array();
  for (const fidelity::ScoredSet& s : scores.sets) {
    ordered_json set{{"set", s.set}, {"quantity", s.quantity}, {"rows", s.rows},     {"mape", s.mape},
                     {"p90", s.p90}, {"bias", s.bias},         {"fitted", s.fitted}, {"median", s.median}};
    if (std::isfinite(s.mfu_power_law)) {
      set["baselines"] = {{"mfu_power_law", s.mfu_power_law}, {"three_constants", number(s.three_constants)}};
    }
    sets.push_back(std::move(set));
  }
  ordered_json worst = ordered_json::array();
  for (const fidelity::ScoredRow* row : fidelity::worst(scores, 50, 5)) {
    worst.push_back({{"set", row->set},
                     {"row", row->row},
                     {"quantity", row->quantity},
                     {"measured", row->measured},
                     {"simulated", row->simulated},
                     {"error", row->error}});
  }
  ordered_json targets = ordered_json::array();
  for (const fidelity::Target& m : fidelity::targets(scores)) {
    targets.push_back({{"name", m.name}, {"target", m.target}, {"value", m.value}, {"rows", m.rows}, {"met", m.met()}});
  }
  for (const fidelity::RunTarget& m : all.of_runs) {
    targets.push_back({{"name", m.name}, {"target", m.target}, {"value", number(m.value)}, {"met", m.met}});
  }
  return {{"sets", std::move(sets)},
          {"absent", all.absent},
          {"worst", std::move(worst)},
          {"marks", std::move(targets)},
          {"infeasible", scores.infeasible.size()},
          {"infeasible_rows", scores.infeasible}};
}

int validate(const ValidateFlags& flags) {
  for (const std::string& file : flags.out) {
    if (file.ends_with(".md") || file.ends_with(".html") || file.ends_with(".csv")) continue;
    return fail(
        {ErrorKind::BadInput, "--out " + file, "must end in .md, .html or .csv, which determines what is written"});
  }
  for (const std::string& file : flags.out) {
    if (const auto ok = check_writable(file); !ok) return fail(ok.error());
  }
  const Result<fidelity::Catalog> catalog = reproduce::load_catalog(config::project());
  if (!catalog) return fail(catalog.error());
  const auto seen = reproduce::load_seen_rows(config::project());
  if (!seen) return fail(seen.error());
  const std::string data = flags.data.empty() ? config::data_dir() : flags.data;
  if (data.empty()) return fail({ErrorKind::BadInput, "--data", "name the folder of data sets, or set WATTLE_DATA"});
  if (!std::filesystem::is_directory(data)) return fail({ErrorKind::BadInput, data, "is no folder"});
  setenv("WATTLE_DATA", data.c_str(), 1);  // the evaluations' scenarios read it
  const auto all = reproduce::validation(data, *catalog, *seen, flags.threads);
  if (!all) return fail(all.error());
  const fidelity::Scores& scores = all->scores;
  for (const std::string& file : flags.out) {
    const std::string text = file.ends_with(".md")     ? fidelity::to_markdown(scores, all->absent, all->of_runs)
                             : file.ends_with(".html") ? fidelity::to_html(scores)
                                                       : fidelity::to_csv(scores);
    if (const auto written = write_file(file, text); !written) return fail(written.error());
  }
  if (flags.json) {
    fmt::print("{}\n", to_json(*all).dump());
    return 0;
  }
  fmt::print("{:<44} {:<18} {:<12} {:>5} {:>7} {:>7} {:>7} {:>7}\n", "set", "quantity", "", "rows", "MAPE", "median",
             "p90", "bias");
  for (const fidelity::ScoredSet& s : scores.sets) {
    fmt::print("{:<44} {:<18} {:<12} {:>5} {:>6.1f}% {:>6.1f}% {:>6.1f}% {:>+6.1f}%\n", s.set, s.quantity,
               s.fitted ? "fitted" : "never fitted", s.rows, 100 * s.mape, 100 * s.median, 100 * s.p90, 100 * s.bias);
  }
  fmt::print("\n");
  for (const fidelity::Target& m : fidelity::targets(scores)) {
    fmt::print("{:<42} {:<16} {:>6.1f}%  {}\n", m.name, m.target, 100 * m.value, m.met() ? "met" : "missed");
  }
  for (const fidelity::RunTarget& m : all->of_runs) {
    fmt::print("{:<42} {:<16} {:>6.1f}   {}\n", m.name, m.target, m.value, m.met ? "met" : "missed");
  }
  for (const std::string& name : all->absent) fmt::print("not scored: {}\n", name);
  for (const std::string& row : scores.infeasible) fmt::print("no value of ours: {}\n", row);
  return 0;
}

}  // namespace

void add_validate(Command app, int& exit_code) {
  Command command = app.add_subcommand("validate", "Compare the simulated hardware with every measurement we know");
  auto flags = std::make_shared<ValidateFlags>();
  command.add_option("--data", flags->data, "Folder of the data sets, any subset of them (default: WATTLE_DATA)");
  command.add_option("-o,--out", flags->out,
                     "Files to write, by suffix: .md the page docs/validation.md, .html a page with scatter plots, "
                     ".csv all rows; repeatable");
  command.add_option("--threads", flags->threads, "Threads; the result does not depend on it").capture_default_str();
  command.add_flag("--json", flags->json, "Print one JSON object");
  command.callback([flags, &exit_code] { exit_code = validate(*flags); });
}

}  // namespace wattle::apps
