#pragma once
// What the control plane believes about a simulated engine: profiled offline as one would profile real hardware, then
// fitted. The only way from truth (engine/) to belief (predict/).
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/scenario.h"
#include "engine/options.h"
#include "engine/step_model.h"
#include "predict/belief_file.h"
#include "predict/gbdt/gbdt_latency.h"
#include "predict/linear_fit.h"
#include "predict/online/online_latency.h"

namespace wattle::calibrate {

/// What is believed about step times, and how it is kept true.
struct PredictorOptions {
  std::string form = "linear";      ///< see believe_latency
  std::string file;                 ///< belief measured on a real engine; empty: profile the simulated one
  bool online = false;              ///< learn on from served steps (predict/online)
  bool refit = true;                ///< online: false = measure only
  std::int32_t refit_every = 1000;  ///< online: new samples between two refits
  std::int32_t ring = 2000;         ///< online: newest samples kept
  std::int32_t window = 200;        ///< online: newest samples that judge a model
};

/// Whose predictor it is, and how well its engine is measured.
struct PredictorContext {
  std::string recipe;                      ///< its name, for messages
  std::string recipe_file;                 ///< a belief file may lie beside it
  config::MeasurementOptions measurement;  ///< of the simulated engine; the default measures truly
};

/// The published grid (VoltanaLLM): decode batches {8k, 8k+1} to 128 and {128k, 128k+1} to 1024, plus 1, 4 and 5 and
/// a size within each tile, as far as max_num_seqs allows, at six KV fill levels from 2 %
/// to 95 % of the cache; prompt tokens from 32 (1 where there are experts) to max_num_batched_tokens, as one prompt and
/// as prompts of 256 and 64. Of models with experts or windows all batches of 8k to 256, of 2 and 3, and no context
/// beyond longest_context. Ours: steps of both phases, 1 to 256 decodes and 64 to 4,096 tokens of one prompt.
/// Deterministic.
[[nodiscard]] std::vector<predict::StepSample> profile_engine(const engine::StepModel& model,
                                                              const engine::EngineOptions& options,
                                                              std::span<const MegaHertz> clocks);

/// Profiles and fits; equal profiles are fitted once in this process. A few milliseconds the first time. Callable from
/// any thread (the StepModel must be the caller's own). Errors: no clock; a profile without usable samples.
[[nodiscard]] Result<std::shared_ptr<const predict::LinearFit>> fit_latency(const engine::StepModel& model,
                                                                            const engine::EngineOptions& options,
                                                                            std::span<const MegaHertz> clocks);

/// The fit alone, of a profile that is at hand. `published`: EcoPred's forms, without what the host takes (see
/// predict::LinearFitOptions).
[[nodiscard]] Result<std::shared_ptr<const predict::LinearFit>> fit_samples(
    const std::vector<predict::StepSample>& samples, bool published = false);

/// GreenServe's offline profile: steps drawn from the feasible ranges, half of them uniformly as published, half
/// log-uniformly, as what is served is mostly small; 1,500 decode steps and 1,500 prefill steps a clock
/// (docs/decisions/0008). Deterministic.
[[nodiscard]] std::vector<predict::StepSample> sample_engine(const engine::StepModel& model,
                                                             const engine::EngineOptions& options,
                                                             std::span<const MegaHertz> clocks);

/// throttLL'eM's M from its own collection procedure (apps/rate_profile.h) for decodes; prompts, which M does not know,
/// by fit_latency's lines. With `measured`, of an engine whose steps take what these lines say, as far as they say it.
/// Trained once per equal profile, seconds the first time. Callable from any thread, as fit_latency. Errors: no clock;
/// lines that say nothing of these clocks; what XGBoost says.
[[nodiscard]] Result<std::shared_ptr<const LatencyModel>> train_rates(
    const engine::StepModel& model, const engine::EngineOptions& options, std::span<const MegaHertz> clocks,
    const std::shared_ptr<const predict::LinearLatency>& measured = nullptr);

/// The latency belief that `predictor` names, for the instances this model simulates; a
/// predict::OnlineLatency where it is to learn on (each call makes a fresh one), else immutable and shared by all calls
/// with equal profiles in this process. Linear: milliseconds the first time; boosted: seconds. Callable from any thread
/// (the StepModel must be the caller's own). With a file, what its lines say of every instance: as they are, or as
/// the profile that the other forms and online refits begin with. Errors: of
/// the file, with line and column; a file for throttLL'eM's M; no clock; a window larger
/// than the ring; what XGBoost says.
struct LatencyBelief {
  std::shared_ptr<const LatencyModel> model;
  predict::OnlineLatency* learner = nullptr;  ///< the model, where it learns
};
[[nodiscard]] Result<LatencyBelief> believe_latency(const PredictorOptions& predictor, const PredictorContext& context,
                                                    const engine::StepModel& model,
                                                    const engine::EngineOptions& options,
                                                    std::span<const MegaHertz> clocks);

/// The power belief for the instances this model simulates: energy by lines over the profile, tiles and ranges of
/// fit_latency's, and idle power by clock; with a file, what that says. Immutable; fitted once per equal profile in
/// this process. Callable from any thread, as fit_latency. Errors: of the file, or that it has no power; no clock.
[[nodiscard]] Result<std::shared_ptr<const PowerModel>> believe_power(const PredictorOptions& predictor,
                                                                      const PredictorContext& context,
                                                                      const engine::StepModel& model,
                                                                      const engine::EngineOptions& options,
                                                                      std::span<const MegaHertz> clocks);

/// Of what a fit depends on.
[[nodiscard]] std::uint64_t digest_of(std::span<const predict::StepSample> samples);

/// A belief file of `wattle fit PROFILE`, by its path or beside the recipe. Errors: missing, or as parse_belief has
/// them.
[[nodiscard]] Result<predict::LinearBelief> load_belief(const std::string& file, const std::string& recipe_file);

/// Beliefs::clocks with this predictor: of a file the lowest and the highest it was fitted on; the simulated engine is
/// profiled at every clock that is asked about. Errors: as load_belief.
[[nodiscard]] Result<MeasuredClocks> clocks_believed(const PredictorOptions& predictor, const std::string& recipe_file);

/// Predictions these beliefs were asked for outside the range they were measured in. Beliefs fitted to the simulated
/// engine are profiled where they are asked and count none.
[[nodiscard]] std::int64_t extrapolations(std::span<const std::shared_ptr<const LatencyModel>> beliefs);

}  // namespace wattle::calibrate
