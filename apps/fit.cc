// `wattle fit`: the shipped hardware profiles, from the measured data; `wattle fit PROFILE`: a belief, from what
// `wattle profile` measured.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "config/load.h"
#include "config/locate.h"
#include "config/profile.h"
#include "fidelity/cross_validation.h"
#include "fidelity/fit_plan.h"
#include "fidelity/relatives.h"
#include "fidelity/seen_rows.h"
#include "predict/belief_file.h"
#include "reproduce/catalog.h"
#include "reproduce/validation.h"

namespace wattle::apps {
namespace {

struct FitFlags {
  std::string profile;
  std::string data;
  std::string out;
  std::vector<std::string> gpus;
  std::string like;
  unsigned threads = 2;
  unsigned folds = 0;
  bool by_model = false;
  bool seen_only = false;
};

void print_quality(const char* phase, const predict::FitQuality& quality) {
  if (quality.samples > 0) {
    fmt::print("{:<8} {:>4} rows, mean error {:.3f} ms, R2 {:.5f}\n", phase, quality.samples, quality.mae_ms,
               quality.r2);
  }
}

int fit_profile(const FitFlags& flags) {
  if (!flags.data.empty() || !flags.gpus.empty() || !flags.like.empty() || flags.folds > 0 || flags.by_model ||
      flags.seen_only) {
    return fail({ErrorKind::BadInput, "--data, --gpu, --like, --folds, --by-model, --seen-only",
                 "are for the shipped profiles, not for a PROFILE"});
  }
  const auto text = read_file(flags.profile);
  if (!text) return fail(text.error());
  const auto profile = predict::parse_step_profile(*text, flags.profile);
  if (!profile) return fail(profile.error());
  auto fit = predict::fit_belief(*profile);
  if (!fit) return fail({fit.error().kind, flags.profile, fit.error().what});
  auto& belief = fit->belief;
  belief.provenance.push_back(fmt::format("fitted by: wattle fit, on {} rows of {}", profile->rows.size(),
                                          std::filesystem::path(flags.profile).filename().string()));
  const std::string out = flags.out.empty() ? "belief.csv" : flags.out;
  if (auto ok = write_file(out, predict::to_csv(belief)); !ok) return fail(ok.error());
  print_quality("prefill", fit->prefill);
  print_quality("decode", fit->decode);
  const auto& ends = belief.time.tile_ends;
  fmt::print("{} clocks, {} tiles{}{}\n", belief.time.clocks.size(), ends.size() + 1, ends.empty() ? "" : " ending at ",
             fmt::join(ends, ", "));
  if (belief.time.clocks.size() == 1) {
    fmt::print("covers {} MHz alone: policies choose no other clock by it\n", belief.time.clocks.front().clock.value());
  }
  if (fit->clipped > 0) fmt::print("{} rows ran below their locked clock: power-limited\n", fit->clipped);
  if (belief.power.energy.clocks.empty()) {
    fmt::print("no power: it takes an idle row and rows with power of every phase at every clock\n");
  }
  fmt::print("{}: use it with --set predictor_file={}\n", out, out);
  return 0;
}

/// Prints, and writes nothing.
int cross_validate(const FitFlags& flags, const fidelity::Catalog& catalog,
                   const std::vector<fidelity::Experiment>& experiments) {
  if (flags.gpus.empty())
    return fail({ErrorKind::BadInput, "--folds", "name the kinds of GPU to cross-validate with --gpu"});
  fmt::print("{:<44} {:<18} {:>5} {:>9} {:>9}\n", "set", "quantity", "rows", "fit", "left out");
  for (const std::string& gpu : flags.gpus) {
    if (catalog.gpu(gpu) == nullptr) return fail({ErrorKind::BadInput, "--gpu " + gpu, "no such kind of GPU"});
    for (const auto& row : fidelity::cross_validate(gpu, catalog, experiments, flags.folds, flags.threads)) {
      fmt::print("{:<44} {:<18} {:>5} {:>8.1f}% {:>8.1f}%\n", row.set, row.quantity, row.rows, 100 * row.fitted,
                 100 * row.left_out);
    }
  }
  return 0;
}

/// Prints, by model, how well a fit without it predicts it.
int leave_models_out(const FitFlags& flags, const fidelity::Catalog& catalog,
                     const std::vector<fidelity::Experiment>& experiments) {
  if (flags.gpus.empty())
    return fail({ErrorKind::BadInput, "--by-model", "name the kinds of GPU to cross-validate with --gpu"});
  fmt::print("{:<12} {:<20} {:<20} {:>5} {:>8} {:>8} {:>8} {:>8}\n", "gpu", "model left out", "quantity", "rows",
             "mean", "median", "p90", "bias");
  for (const std::string& gpu : flags.gpus) {
    if (catalog.gpu(gpu) == nullptr) return fail({ErrorKind::BadInput, "--gpu " + gpu, "no such kind of GPU"});
    for (const auto& row : fidelity::leave_one_model_out(gpu, catalog, experiments, flags.threads)) {
      fmt::print("{:<12} {:<20} {:<20} {:>5} {:>7.1f}% {:>7.1f}% {:>7.1f}% {:>+7.1f}%\n", gpu, row.model, row.quantity,
                 row.rows, 100 * row.mean, 100 * row.median, 100 * row.p90, 100 * row.bias);
    }
  }
  return 0;
}

/// Adds the rows that fits of `gpus` and constants chosen by hand have seen to the list next to the profiles.
Result<std::size_t> record_seen(const std::string& out, const std::vector<std::string>& gpus,
                                const std::vector<fidelity::Experiment>& experiments) {
  const std::string file = fmt::format("{}/{}", out, fidelity::kSeenRows);
  fidelity::SeenRows seen;
  if (std::filesystem::exists(file)) {
    const auto text = read_file(file);
    if (!text) return std::unexpected(text.error());
    auto before = fidelity::SeenRows::parse(*text, file);
    if (!before) return std::unexpected(before.error());
    seen = std::move(*before);
  }
  for (const fidelity::Experiment& e : experiments) {
    if ((e.fitted || e.in_view) && std::ranges::find(gpus, e.gpu) != gpus.end()) seen.add(e);
  }
  if (const auto written = write_file(file, seen.text()); !written) return std::unexpected(written.error());
  return seen.size();
}

/// The profile of a kind without rows: its relative's factors on its own data sheet.
int like_a_relative(const FitFlags& flags, const std::string& out) {
  if (flags.gpus.size() != 1) return fail({ErrorKind::BadInput, "--like", "name the new kind with --gpu, just one"});
  const auto& project = config::project();
  const auto spec = [&](const std::string& name, const char* flag) -> Result<GpuSpec> {
    const auto file = project.find(config::Project::Kind::Gpu, name, flag);
    return file ? config::load_gpu(*file) : Result<GpuSpec>(std::unexpected(file.error()));
  };
  const auto to = spec(flags.gpus.front(), "--gpu");
  if (!to) return fail(to.error());
  const auto from = spec(flags.like, "--like");
  if (!from) return fail(from.error());
  const auto factors = config::profile_of(flags.like, project);
  if (!factors) return fail(factors.error());
  const config::LoadedProfile made{
      fidelity::without_rows(fidelity::scaled_to(*to, *factors, *from, false), flags.gpus.front()),
      fmt::format("No measurement of this GPU: factors of {}, power scaled to its TDP", flags.like)};
  const std::string file = out + "/" + flags.gpus.front() + ".toml";
  if (std::filesystem::exists(file))
    return fail({ErrorKind::BadInput, file, "exists already; delete it to replace it"});
  std::error_code ignored;
  std::filesystem::create_directories(out, ignored);
  if (const auto ok = write_file(file, config::to_text(made, {})); !ok) return fail(ok.error());
  fmt::print("{}: {}\n", file, made.provenance);
  return 0;
}

int fit_shipped(const FitFlags& flags) {
  const std::string out = flags.out.empty() ? "profiles" : flags.out;
  if (!flags.like.empty()) return like_a_relative(flags, out);
  Result<fidelity::Catalog> catalog = reproduce::load_catalog(config::project());
  if (!catalog) return fail(catalog.error());
  const std::string data = flags.data.empty() ? config::data_dir() : flags.data;
  if (data.empty()) return fail({ErrorKind::BadInput, "--data", "name the folder of data sets, or set WATTLE_DATA"});
  setenv("WATTLE_DATA", data.c_str(), 1);  // the evaluations read it
  const auto all = fidelity::collect(data, *catalog);
  if (!all) return fail(all.error());
  if (flags.by_model) return leave_models_out(flags, *catalog, all->experiments);
  // A fit starts from the defaults or a relative, shipped or just fitted; never from an earlier fit of the same kind.
  const auto wanted = [&](const std::string& gpu) {
    return flags.gpus.empty() || std::ranges::find(flags.gpus, gpu) != flags.gpus.end();
  };
  std::erase_if(catalog->profiles, [&](const auto& profile) { return wanted(profile.first); });
  if (flags.folds > 0) return cross_validate(flags, *catalog, all->experiments);
  std::error_code error;
  std::filesystem::create_directories(out, error);
  auto order = fidelity::fit_order(*catalog, flags.gpus);
  std::erase_if(order, [&](const std::string& gpu) { return !wanted(gpu); });
  auto rows = reproduce::whole_runs_in_view(data);
  if (!rows) return fail(rows.error());
  rows->insert(rows->end(), all->experiments.begin(), all->experiments.end());
  const auto seen = record_seen(out, order, *rows);
  if (!seen) return fail(seen.error());
  fmt::print("{:<28} {} rows seen by fits or by hand\n", fmt::format("{}/{}", out, fidelity::kSeenRows), *seen);
  if (flags.seen_only) return 0;
  for (const std::string& gpu : order) {
    const fidelity::FitOutcome outcome = fidelity::fit_gpu(gpu, *catalog, all->experiments, flags.threads);
    const config::LoadedProfile profile{outcome.profile, outcome.provenance};
    const std::string text = config::to_text(profile, outcome.notes);
    // Later fits and all readers start from the written, rounded values.
    const auto rounded = config::profile_from_text(text, gpu + ".toml");
    if (!rounded) return fail(rounded.error());
    catalog->profiles[gpu] = rounded->factors;
    const std::string file = out + "/" + gpu + ".toml";
    std::ofstream(file) << text;
    if (!std::filesystem::exists(file)) return fail({ErrorKind::External, file, "cannot be written"});
    fmt::print("{:<28} {}\n", file, outcome.provenance);
  }
  return 0;
}

}  // namespace

void add_fit(Command app, int& exit_code) {
  Command command = app.add_subcommand(
      "fit", "Fit a latency and power model to a measured profile, or the hardware profiles to the data sets");
  auto flags = std::make_shared<FitFlags>();
  command.add_option("PROFILE", flags->profile,
                     "A profile written by `wattle profile`; without it, the shipped hardware profiles are fitted");
  command.add_option("--data", flags->data, "Folder of the data sets (default: WATTLE_DATA)");
  command.add_option(
      "-o,--out", flags->out,
      "The model file to write (default belief.csv), or the folder of hardware profiles (default profiles)");
  command.add_option("--gpu", flags->gpus,
                     "Fit only these kinds of GPU, starting from the shipped profiles of related kinds (default: all)");
  command.add_option("--like", flags->like,
                     "No fit: write a profile for the one kind in --gpu, which has no measurements, from this kind's "
                     "factors and both data sheets");
  command.add_option("--threads", flags->threads, "Threads; the result does not depend on it").capture_default_str();
  command
      .add_option(
          "--folds", flags->folds,
          "Cross-validate instead with this many folds: print the error by data set, of the fit and on left-out rows")
      .check(range(2, 10));
  command.add_flag("--by-model", flags->by_model,
                   "Cross-validate by model instead: print how well a fit on the other models' serving runs predicts "
                   "each model's");
  command.add_flag("--seen-only", flags->seen_only,
                   "Fit nothing: only add the rows that a fit would use to the list that validate reports as fitted");
  command.callback(
      [flags, &exit_code] { exit_code = flags->profile.empty() ? fit_shipped(*flags) : fit_profile(*flags); });
}

}  // namespace wattle::apps
