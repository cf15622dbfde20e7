// `wattle fit`: the shipped hardware profiles, from the measured data.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "catalog.h"
#include "commands.h"
#include "config/profile.h"
#include "fidelity/fit_plan.h"
#include "locate.h"

namespace wattle::apps {
namespace {

struct FitFlags {
  std::string data;
  std::string out = "profiles";
  std::vector<std::string> gpus;
  unsigned threads = 2;
};

int fit(const FitFlags& flags) {
  Result<fidelity::Catalog> catalog = load_catalog(project());
  if (!catalog) return fail(catalog.error());
  const std::string data = flags.data.empty() ? data_dir() : flags.data;
  if (data.empty()) return fail({ErrorKind::BadInput, "--data", "name the folder of data sets, or set WATTLE_DATA"});
  catalog->profiles.clear();  // a fit starts from the defaults, not from an earlier fit
  const auto all = fidelity::collect(data, *catalog);
  if (!all) return fail(all.error());
  std::error_code error;
  std::filesystem::create_directories(flags.out, error);
  for (const std::string& gpu : fidelity::fit_order(*catalog)) {
    // Later kinds start from earlier ones, so all are fitted even where few are asked for.
    const fidelity::FitOutcome outcome = fidelity::fit_gpu(gpu, *catalog, all->experiments, flags.threads);
    const config::LoadedProfile profile{outcome.profile, outcome.provenance};
    const std::string text = config::to_text(profile, outcome.notes);
    // What is written is what later kinds, and every reader of the file, start from.
    const auto rounded = config::profile_from_text(text, gpu + ".toml");
    if (!rounded) return fail(rounded.error());
    catalog->profiles[gpu] = rounded->factors;
    if (!flags.gpus.empty() && std::ranges::find(flags.gpus, gpu) == flags.gpus.end()) continue;
    const std::string file = flags.out + "/" + gpu + ".toml";
    std::ofstream(file) << text;
    if (!std::filesystem::exists(file)) return fail({ErrorKind::External, file, "cannot be written"});
    fmt::print("{:<28} {}\n", file, outcome.provenance);
  }
  return 0;
}

}  // namespace

void add_fit(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("fit", "Fit the hardware profiles on measured data");
  auto flags = std::make_shared<FitFlags>();
  command->add_option("--data", flags->data, "Folder of the data sets (default: WATTLE_DATA)");
  command->add_option("--out", flags->out, "Folder the profiles are written to")->capture_default_str();
  command->add_option("--gpu", flags->gpus, "Write only these kinds (default: all)");
  command->add_option("--threads", flags->threads, "Threads; the result does not depend on it")->capture_default_str();
  command->callback([flags, &exit_code] { exit_code = fit(*flags); });
}

}  // namespace wattle::apps
