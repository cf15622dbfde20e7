#pragma once
// Trains EcoPred's boosted form with XGBoost's C API, on GreenServe's published settings. Apart from predict/ because
// XGBoost runs threads of its own; here it is held to one, so that equal samples give equal models.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "predict/gbdt/gbdt_latency.h"
#include "predict/linear_latency.h"
#include "predict/online/online_latency.h"
#include "predict/step_sample.h"

namespace wattle::learn {

/// The defaults; prefill by trees is ours, on the decode settings. Published: prefill a linear booster, learning rate
/// 0.5, up to 100,000 rounds, early stop after 1,000; decode trees, rate 0.1, up to 1,000 rounds, depth 6, subsample
/// and colsample 0.8, histograms, absolute error, early stop after 200.
struct GbdtTraining {
  bool prefill_trees = true;
  /// Trees learn what this leaves over; null: the times themselves. Goes with prefill_trees. Then the fewest rounds are
  /// kept that the best do not beat by more than chance: lines already say nearly all, and what is left may be noise.
  std::shared_ptr<const predict::LinearLatency> lines = nullptr;
  int prefill_rounds = 100'000;
  int prefill_patience = 1'000;
  int decode_rounds = 1'000;
  int decode_patience = 200;
  int decode_depth = 6;
  int bins = 256;         ///< of the histograms; bounds the thresholds, and so the tables
  double held_out = 0.2;  ///< share of the samples that decides when to stop
  std::uint64_t seed = 1;
};

/// XGBoost's own models, in its UBJSON (binary) form, and how well they explain the samples held out.
struct GbdtModels {
  std::string prefill_model;
  std::string decode_model;
  predict::FitQuality prefill;
  predict::FitQuality decode;
};

/// Changes when equal samples (and lines) may give other models: with these settings, with XGBoost's version, and with
/// ours.
[[nodiscard]] std::uint64_t training_digest(const GbdtTraining& training);

/// Milliseconds against (clock, N_tok), for trees (clock, N_tok, N_ctx), for samples with prompt tokens only, (clock,
/// N_req, N_kv) for those with decodes
/// only; others are ignored. Deterministic. Errors: fewer than ten usable samples of a phase; what XGBoost says.
[[nodiscard]] Result<GbdtModels> train_gbdt(std::span<const predict::StepSample> samples,
                                            const GbdtTraining& training = {});

/// One iteration of an engine of this size.
struct EngineStep {
  std::int32_t tensor_parallel = 1;
  predict::StepSample step;
};

/// throttLL'eM's M (section IV-C1): trees on (clock, N_req, N_kv, TP) to iterations/s. The paper names no settings;
/// these are ours.
struct RateTraining {
  int rounds = 600;
  int patience = 50;
  int depth = 8;
  int bins = 128;         ///< thresholds per feature at most
  double held_out = 0.1;  ///< share of the samples that decides when to stop
  std::uint64_t seed = 1;
};

[[nodiscard]] std::uint64_t training_digest(const RateTraining& training);

/// XGBoost's model, in UBJSON. Only steps that decode alone count. Deterministic. Errors: fewer than ten such; what
/// XGBoost says.
[[nodiscard]] Result<std::string> train_rates(std::span<const EngineStep> samples, const RateTraining& training = {});
/// M for engines of this size. Prompts take no time.
[[nodiscard]] Result<predict::GbdtLatency> load_rates(const std::string& rates, std::int32_t tensor_parallel);

/// Goes on training where `before` ended (XGBoost's continuation): up to `training`'s rounds more, from fresh samples.
/// A phase with too few of them keeps its model. Errors: models of another form than `training` says; what XGBoost
/// says.
[[nodiscard]] Result<GbdtModels> continue_gbdt(const GbdtModels& before, std::span<const predict::StepSample> samples,
                                               const GbdtTraining& training);

/// For predict::OnlineLatency: continues from the offline models, each time from them, so that they do not grow without
/// end, with at most 100 rounds, on the levelled profile and the served steps. Of `training`, what says the models'
/// form is used.
[[nodiscard]] predict::LatencyRefit gbdt_refit(GbdtModels offline, std::shared_ptr<const LatencyModel> model,
                                               std::vector<predict::StepSample> profile, GbdtTraining training);

/// Both models as a latency model.
[[nodiscard]] Result<predict::GbdtLatency> load_gbdt(const GbdtModels& models);
/// The same, or where there are lines, both models on top of them.
[[nodiscard]] Result<std::shared_ptr<const LatencyModel>> load_latency(
    const GbdtModels& models, const std::shared_ptr<const predict::LinearLatency>& lines);

}  // namespace wattle::learn
