#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "report/comparison.h"
#include "report/page.h"

namespace wattle::apps {
namespace {

struct ReportFlags {
  std::vector<std::string> runs;
  std::string output;
  std::string baseline;
  bool json = false;
};

int report(const ReportFlags& flags) {
  const auto comparison = report::load(flags.runs, flags.baseline);
  if (!comparison) return fail(comparison.error());
  const std::string output = flags.output.empty() && !flags.json ? "report.html" : flags.output;
  if (!output.empty()) {
    if (const auto written = write_file(output, report::html(*comparison)); !written) return fail(written.error());
  }
  if (flags.json) {
    auto json = report::to_json(*comparison);
    json["report"] = output.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(output);
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{} {} in {}\n", comparison->runs.size(), comparison->runs.size() == 1 ? "run" : "runs", output);
  }
  return 0;
}

}  // namespace

void add_report(Command app, int& exit_code) {
  auto flags = std::make_shared<ReportFlags>();
  Command command = app.add_subcommand("report", "One self-contained HTML page from runs on disk");
  command.add_option("runs", flags->runs, "Run directories, or directories of run directories (`wattle sim --out`)")
      .required();
  command.add_option("-o,--out", flags->output, "The page to write (default report.html; none with --json)");
  command.add_option("--baseline", flags->baseline,
                     "Recipe with which the others are compared (default static-max, else the first that completed "
                     "as much as any other)");
  command.add_flag("--json", flags->json, "Print the comparison as one JSON object");
  command.callback([flags, &exit_code] { exit_code = report(*flags); });
}

}  // namespace wattle::apps
