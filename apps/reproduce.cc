// `wattle reproduce`: a paper's evaluation, published values next to ours. Each section has its own file.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "commands.h"
#include "reproduce/evaluation.h"
#include "reproduce/freesh.h"

namespace wattle::apps {

namespace {

struct ReproduceFlags {
  std::string system;
  std::vector<std::string> sections;
  std::string output;
  double seconds = reproduce::kRunSeconds;
  bool json = false;
  bool check = false;
  bool quick = false;
};

constexpr double kQuickSeconds = 30.0;

std::vector<reproduce::Evaluation> evaluations() {
  return {reproduce::voltanallm(), reproduce::greenserve(), reproduce::throttllem_evaluation(),
          reproduce::freesh_evaluation(), reproduce::dynamollm_evaluation()};
}

template <typename Range, typename Name>
std::string names(const Range& range, Name name) {
  std::vector<std::string_view> all;
  for (const auto& entry : range) all.push_back(entry.*name);
  return fmt::format("{}", fmt::join(all, ", "));
}

int run(const ReproduceFlags& flags) {
  const auto all = evaluations();
  const auto system = std::ranges::find(all, flags.system, &reproduce::Evaluation::system);
  if (system == all.end()) {
    return fail({ErrorKind::BadInput, flags.system,
                 "no evaluation of that name; known: " + names(all, &reproduce::Evaluation::system)});
  }
  std::vector<const reproduce::SectionMaker*> chosen;
  for (const auto& name : flags.sections) {
    const auto found = std::ranges::find(system->sections, name, &reproduce::SectionMaker::name);
    if (found == system->sections.end()) {
      return fail({ErrorKind::BadInput, name,
                   "no section of that name; known: " + names(system->sections, &reproduce::SectionMaker::name)});
    }
    chosen.push_back(&*found);
  }
  if (!flags.output.empty()) {
    if (const auto ok = check_writable(flags.output); !ok) return fail(ok.error());
  }
  if (chosen.empty()) {
    for (const auto& section : system->sections) chosen.push_back(&section);
  }
  nlohmann::ordered_json object{
      {"system", flags.system}, {"rows", nlohmann::json::array()}, {"marks", nlohmann::json::array()}};
  std::vector<reproduce::Section> made;
  std::vector<std::string> missed;
  for (const auto* maker : chosen) {
    auto section = maker->make(flags.quick ? kQuickSeconds : flags.seconds);
    if (!section) return fail(section.error());
    for (const auto& target : section->targets) {
      if (!target.met) missed.push_back(fmt::format("{}/{}", maker->name, target.name));
    }
    if (flags.json) {
      append(*section, object);
    } else {
      print(*section);
    }
    if (!flags.output.empty()) made.push_back(std::move(*section));
  }
  if (!flags.output.empty()) {
    if (const auto ok = write_file(flags.output, reproduce::html(flags.system, made)); !ok) return fail(ok.error());
  }
  if (flags.json) fmt::print("{}\n", object.dump(2));
  if (!flags.check || missed.empty()) return 0;
  fmt::print(stderr, "wattle: {} of the targets missed: {}\n", missed.size(), fmt::join(missed, ", "));
  return 1;
}

std::string sections_help() {
  std::string text = "only this section; repeat for more";
  for (const auto& evaluation : evaluations()) {
    text += fmt::format("; {}: {}", evaluation.system, names(evaluation.sections, &reproduce::SectionMaker::name));
  }
  return text;
}

}  // namespace

void add_reproduce(Command app, int& exit_code) {
  auto flags = std::make_shared<ReproduceFlags>();
  Command command = app.add_subcommand("reproduce", "Run a paper's evaluation: published value, ours, difference");
  command.add_option("system", flags->system, names(evaluations(), &reproduce::Evaluation::system)).required();
  command.add_option("--section", flags->sections, sections_help());
  command.add_option("-o,--out", flags->output, "also write an HTML page with plots to this file");
  const Flag seconds =
      command
          .add_option("--seconds", flags->seconds,
                      "duration of arrivals (voltanallm, greenserve: all sections but main and ecopred; dynamollm: "
                      "section week, which is otherwise run whole)")
          .check(range(1.0, 604800.0))
          .capture_default_str();
  command.add_flag("--json", flags->json, "one JSON object on stdout");
  command.add_flag("--check", flags->check, "exit with 1 if a target is missed, and name it");
  command
      .add_flag("--quick", flags->quick,
                fmt::format("as --seconds {:g}, for CI; targets are those of whole runs", kQuickSeconds))
      .excludes(seconds);
  command.callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace wattle::apps
