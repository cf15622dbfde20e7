// throttLL'eM's performance model M learned from a mock engine in real time: trained on a share of what `wattle
// profile` measured over HTTP, scored on the rest; and M learned in the simulator, scored on all of it.
#include <fmt/core.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/load.h"
#include "learn/gbdt_trainer.h"
#include "locate.h"
#include "predict/rate_score.h"
#include "predict/step_profile.h"
#include "profiles.h"
#include "rate_profile.h"

namespace {

using namespace wattle;

/// Of M learned in the simulator, on rows from the mock: what is measured here are short lives of small batches, in a
/// corner of the cache that the paper's procedure fills.
constexpr double kLeastAcross = 0.9;

Result<std::vector<predict::StepSample>> decode_steps(const std::string& file) {
  const auto text = read_file(file);
  if (!text) return std::unexpected(text.error());
  const auto profile = predict::parse_step_profile(*text, file);
  if (!profile) return std::unexpected(profile.error());
  std::vector<predict::StepSample> samples;
  for (const auto& row : profile->rows) {
    if (row.phase != predict::StepKind::Decode) continue;
    StepShape shape;
    shape.decode_requests = row.requests;
    shape.decode_kv_tokens = row.kv_tokens;
    samples.push_back({row.clock, shape, row.step});
  }
  return samples;
}

Result<predict::RateScore> score(const std::vector<predict::StepSample>& known,
                                 const std::vector<predict::StepSample>& unseen) {
  std::vector<learn::EngineStep> steps;
  for (const auto& sample : known) steps.push_back({1, sample});
  const auto json = learn::train_rates(steps);
  if (!json) return std::unexpected(json.error());
  const auto model = learn::load_rates(*json, 1);
  if (!model) return std::unexpected(model.error());
  return predict::score_rate(*model, unseen);
}

bool tell(const char* what, const Result<predict::RateScore>& got, double least_r2) {
  if (!got) return fmt::print(stderr, "{}\n", got.error().message()), false;
  fmt::print("{}: R2 {:.4f}, MAPE {:.2f} %, MAE {:.3f} iterations/s on {} rows\n", what, got->r2, 100.0 * got->mape,
             got->mae, got->samples);
  return got->r2 >= least_r2;
}

int run(const std::string& file, double least_r2) {
  const auto measured = decode_steps(file);
  if (!measured) return fmt::print(stderr, "{}\n", measured.error().message()), 2;
  const auto [known, unseen] = predict::split_samples(*measured, 0.9, 1);
  fmt::print("{} rows measured\n", measured->size());
  const bool own = tell("learned from 90 % of them", score(known, unseen), least_r2);

  const auto home = apps::project();
  const auto gpu = config::load_gpu(home.find(config::Project::Kind::Gpu, "a100-80g", "gpu").value()).value();
  const auto llm = config::load_llm(home.find(config::Project::Kind::Llm, "llama-3.1-8b", "llm").value()).value();
  engine::EngineOptions options;
  const auto model = apps::make_step_model(gpu, llm, 1, options).value();
  std::vector<MegaHertz> clocks;
  for (const auto& sample : *measured) {
    if (clocks.empty() || clocks.back() != sample.clock) clocks.push_back(sample.clock);
  }
  options.max_num_seqs = 64;
  const bool simulated = tell("learned in the simulator, on all of them",
                              score(apps::collect_rates(model, options, clocks), *measured), kLeastAcross);
  return own && simulated ? 0 : 1;
}

}  // namespace

/// FILE LEAST_R2
int main(int argc, char** argv) { return argc == 3 ? run(argv[1], std::atof(argv[2])) : 2; }
