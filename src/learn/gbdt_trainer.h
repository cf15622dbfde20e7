#pragma once
// Trains EcoPred's boosted form with XGBoost's C API, using GreenServe's published settings. Separate from predict/
// because XGBoost runs threads of its own; here it is limited to one, so that equal samples give equal models.
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
  /// Trees are trained on the residuals of this model; null: on the times themselves. Requires prefill_trees. The
  /// smallest number of rounds is kept that is not significantly worse than the best: the linear model explains nearly
  /// everything, and the rest may be noise.
  std::shared_ptr<const predict::LinearLatency> lines = nullptr;
  int prefill_rounds = 100'000;
  int prefill_patience = 1'000;
  int decode_rounds = 1'000;
  int decode_patience = 200;
  int decode_depth = 6;
  int bins = 256;         ///< bins of the histograms; limits the thresholds, and so the tables
  double held_out = 0.2;  ///< share of the samples that decides when to stop
  std::uint64_t seed = 1;
};

/// XGBoost's models in its binary format (UBJSON), and their fit on the held-out samples.
struct GbdtModels {
  std::string prefill_model;
  std::string decode_model;
  predict::FitQuality prefill;
  predict::FitQuality decode;
};

/// A digest of everything other than the samples and lines that determines the models: these settings, XGBoost's
/// version, and ours.
[[nodiscard]] std::uint64_t training_digest(const GbdtTraining& training);

/// Trains models of step time in milliseconds: for steps with prompts only, on (clock, N_tok), with trees also N_ctx;
/// for steps with decodes only, on (clock, N_req, N_kv). Other samples are ignored. Deterministic. Errors: fewer than
/// ten usable samples of a phase; XGBoost's.
[[nodiscard]] Result<GbdtModels> train_gbdt(std::span<const predict::StepSample> samples,
                                            const GbdtTraining& training = {});

/// One iteration of an engine of this size.
struct EngineStep {
  std::int32_t tensor_parallel = 1;
  predict::StepSample step;
};

/// throttLL'eM's M (section IV-C1): trees on (clock, N_req, N_kv, TP) that predict iterations/s. The paper states no
/// settings; these are ours.
struct RateTraining {
  int rounds = 600;
  int patience = 50;
  int depth = 8;
  int bins = 128;         ///< maximum number of thresholds per feature
  double held_out = 0.1;  ///< share of the samples that decides when to stop
  std::uint64_t seed = 1;
};

[[nodiscard]] std::uint64_t training_digest(const RateTraining& training);

/// XGBoost's model, in UBJSON. Only steps with decodes alone are used. Deterministic. Errors: fewer than ten such
/// steps; XGBoost's.
[[nodiscard]] Result<std::string> train_rates(std::span<const EngineStep> samples, const RateTraining& training = {});
/// M for engines of this size. Prompts are predicted to take no time.
[[nodiscard]] Result<predict::GbdtLatency> load_rates(const std::string& rates, std::int32_t tensor_parallel);

/// Continues training from `before` (XGBoost's continuation) with up to `training`'s number of rounds, on new samples.
/// A phase with too few samples keeps its model. Errors: models of a form other than in `training`; XGBoost's.
[[nodiscard]] Result<GbdtModels> continue_gbdt(const GbdtModels& before, std::span<const predict::StepSample> samples,
                                               const GbdtTraining& training);

/// For predict::OnlineLatency: continues from the offline models, always starting from them, so that they do not grow
/// without limit, with at most 100 rounds, on the scaled profile and the served steps. Only the form is taken from
/// `training`.
[[nodiscard]] predict::LatencyRefit gbdt_refit(GbdtModels offline, std::shared_ptr<const LatencyModel> model,
                                               std::vector<predict::StepSample> profile, GbdtTraining training);

/// A latency model from both models.
[[nodiscard]] Result<predict::GbdtLatency> load_gbdt(const GbdtModels& models);
/// The same; with `lines`, both models are added to them.
[[nodiscard]] Result<std::shared_ptr<const LatencyModel>> load_latency(
    const GbdtModels& models, const std::shared_ptr<const predict::LinearLatency>& lines);

}  // namespace wattle::learn
