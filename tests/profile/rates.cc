// throttLL'eM's performance model M learned from a mock engine in real time: trained on a share of what `wattle
// profile --grid throttllem` measured over HTTP, scored on the rest, with both of the paper's splits; and M collected
// in the simulator from the same engine, scored on all of it.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/file.h"
#include "calibrate/rate_profile.h"
#include "config/load.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "learn/gbdt_trainer.h"
#include "predict/rate_score.h"
#include "predict/step_profile.h"

namespace {

using namespace wattle;

constexpr std::int32_t kTensorParallel = 4;

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
  for (const auto& sample : known) steps.push_back({kTensorParallel, sample});
  const auto json = learn::train_rates(steps);
  if (!json) return std::unexpected(json.error());
  const auto model = learn::load_rates(*json, kTensorParallel);
  if (!model) return std::unexpected(model.error());
  return predict::score_rate(*model, unseen);
}

/// The score of median R2 of several random splits: which rows are known is luck where they are few.
Result<predict::RateScore> median_of_draws(const std::vector<predict::StepSample>& measured, double share) {
  constexpr std::uint64_t kDraws = 9;
  std::vector<predict::RateScore> scores;
  for (std::uint64_t draw = 1; draw <= kDraws; ++draw) {
    const auto [known, unseen] = predict::split_samples(measured, share, draw);
    const auto got = score(known, unseen);
    if (!got) return got;
    scores.push_back(*got);
  }
  std::ranges::nth_element(scores, scores.begin() + kDraws / 2, {}, &predict::RateScore::r2);
  return scores[kDraws / 2];
}

bool tell(const std::string& what, const Result<predict::RateScore>& got, double least_r2) {
  if (!got) return fmt::print(stderr, "{}\n", got.error().message()), false;
  fmt::print("{}: R2 {:.4f}, MAPE {:.2f} %, MAE {:.3f} iterations/s on {} rows\n", what, got->r2, 100.0 * got->mape,
             got->mae, got->samples);
  return got->r2 >= least_r2;
}

struct Limits {
  double mostly;  ///< R2 learned from 90 %
  double sparse;  ///< from 10 %
  double across;  ///< collected in the simulator
};

int run(const std::string& file, const Limits& least, double gpu_memory_utilization) {
  const auto measured = decode_steps(file);
  if (!measured) return fmt::print(stderr, "{}\n", measured.error().message()), 2;
  fmt::print("{} rows measured\n", measured->size());
  bool good = true;
  for (const auto& [share, limit] : {std::pair(0.9, least.mostly), std::pair(0.1, least.sparse)}) {
    const auto got = median_of_draws(*measured, share);
    good = tell(fmt::format("learned from {:.0f} % of them", 100.0 * share), got, limit) && good;
  }
  const auto home = config::project();
  const auto gpu = config::load_gpu(home.find(config::Project::Kind::Gpu, "a100-80g", "gpu").value()).value();
  const auto llm = config::load_llm(home.find(config::Project::Kind::Llm, "llama-3.1-8b", "llm").value()).value();
  engine::EngineOptions options;
  options.gpu_memory_utilization = gpu_memory_utilization;
  options.activation_bytes_per_gpu = 0;
  options.max_num_seqs = 64;
  const auto model = config::make_step_model(gpu, llm, kTensorParallel, options).value();
  const auto collected = calibrate::collect_rates(model, options, supported_clocks(gpu));
  return tell("collected in the simulator, on all of them", score(collected, *measured), least.across) && good ? 0 : 1;
}

}  // namespace

/// FILE LEAST_R2_OF_90 LEAST_R2_OF_10 LEAST_R2_ACROSS GPU_MEMORY_UTILIZATION
int main(int argc, char** argv) {
  if (argc != 6) return 2;
  return run(argv[1], {std::atof(argv[2]), std::atof(argv[3]), std::atof(argv[4])}, std::atof(argv[5]));
}
