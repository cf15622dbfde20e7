#pragma once
// The control plane's models (beliefs) of a simulated engine: profiled offline like real hardware, then fitted. The
// only path from truth (engine/) to belief (predict/).
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

/// The model of step times, and whether it keeps learning.
struct PredictorOptions {
  std::string form = "linear";      ///< see believe_latency
  std::string file;                 ///< model measured on a real engine; empty: profile the simulated one
  bool online = false;              ///< keep learning from served steps (predict/online)
  bool refit = true;                ///< online: false = measure only
  std::int32_t refit_every = 1000;  ///< online: number of new samples between two refits
  std::int32_t ring = 2000;         ///< online: number of most recent samples kept
  std::int32_t window = 200;        ///< online: number of most recent samples on which models are compared
};

/// The recipe that uses the predictor, and how well its engine is measured.
struct PredictorContext {
  std::string recipe;                      ///< its name, for messages
  std::string recipe_file;                 ///< belief files are looked up next to it
  config::MeasurementOptions measurement;  ///< of the simulated engine; by default exact
};

/// VoltanaLLM's published grid, with additions: decode batches {8k, 8k+1} to 128 and {128k, 128k+1} to 1024, plus 1, 4
/// and 5 and one size within each tile, as far as max_num_seqs allows, at six KV fill levels from 2 % to 95 % of the
/// cache; prompt tokens from 32 (with experts: from 1) to max_num_batched_tokens, as one prompt and as prompts of 256
/// and 64. For models with experts or sliding windows all batches of 8k to 256, and 2 and 3, with no context beyond
/// longest_context. Ours: mixed steps with 1 to 256 decodes and 64 to 4,096 tokens of one prompt; with
/// `behind_contexts` also each number of prompt tokens behind 2,048 and 16,384 that are already in the KV cache, as
/// with chunked prefill or a cached prefix: without, a small prompt's attention cannot be separated from its products.
/// Deterministic.
[[nodiscard]] std::vector<predict::StepSample> profile_engine(const engine::StepModel& model,
                                                              const engine::EngineOptions& options,
                                                              std::span<const MegaHertz> clocks,
                                                              bool behind_contexts = true);

/// Profiles and fits; equal profiles are fitted once per process. A few milliseconds the first time. Callable from any
/// thread (with the caller's own StepModel). Errors: no clock; a profile without usable samples.
[[nodiscard]] Result<std::shared_ptr<const predict::LinearFit>> fit_latency(const engine::StepModel& model,
                                                                            const engine::EngineOptions& options,
                                                                            std::span<const MegaHertz> clocks);

/// Fits existing samples of an engine of this model. `published`: EcoPred's published form, without host time (see
/// predict::LinearFitOptions).
[[nodiscard]] Result<std::shared_ptr<const predict::LinearFit>> fit_samples(
    const std::vector<predict::StepSample>& samples, const LlmSpec& llm, bool published = false);

/// GreenServe's offline profile: steps drawn from the feasible ranges, half of them uniformly (as published), half
/// log-uniformly, because most served steps are small; 1,500 decode and 1,500 prefill steps per clock
/// (docs/decisions/0008). Deterministic.
[[nodiscard]] std::vector<predict::StepSample> sample_engine(const engine::StepModel& model,
                                                             const engine::EngineOptions& options,
                                                             std::span<const MegaHertz> clocks);

/// throttLL'eM's M for decodes, trained on its own collection procedure (calibrate/rate_profile.h); prompts, which M
/// does not cover, by fit_latency's linear model. With `measured`: for an engine whose step times are those of this
/// model. Trained once per equal profile; takes seconds the first time. Callable from any thread, like fit_latency.
/// Errors: no clock; `measured` has none of these clocks; XGBoost's.
[[nodiscard]] Result<std::shared_ptr<const LatencyModel>> train_rates(
    const engine::StepModel& model, const engine::EngineOptions& options, std::span<const MegaHertz> clocks,
    const std::shared_ptr<const predict::LinearLatency>& measured = nullptr);

/// The latency model that `predictor` selects, for the instances that this StepModel simulates: with `online` a new
/// predict::OnlineLatency for each call, otherwise immutable and shared within the process by equal profiles. Linear:
/// milliseconds the first time; boosted trees: seconds. Callable from any thread (with the caller's own StepModel).
/// With a file: its linear model for every instance, either directly or as the profile on which other forms and online
/// refits start. Errors: those of the file, with line and column; a file with throttLL'eM's M; no clock; a window
/// larger than the ring; XGBoost's.
struct LatencyBelief {
  std::shared_ptr<const LatencyModel> model;
  predict::OnlineLatency* learner = nullptr;  ///< the same model if it learns online; else null
};
[[nodiscard]] Result<LatencyBelief> believe_latency(const PredictorOptions& predictor, const PredictorContext& context,
                                                    const engine::StepModel& model,
                                                    const engine::EngineOptions& options,
                                                    std::span<const MegaHertz> clocks);

/// The power model for the instances that this StepModel simulates: energy per step by a linear model with the profile,
/// tiles and ranges of fit_latency, and idle power by clock; with a file, its values. Immutable; fitted once per equal
/// profile and process. Callable from any thread, like fit_latency. Errors: those of the file, or that it has no power;
/// no clock.
[[nodiscard]] Result<std::shared_ptr<const PowerModel>> believe_power(const PredictorOptions& predictor,
                                                                      const PredictorContext& context,
                                                                      const engine::StepModel& model,
                                                                      const engine::EngineOptions& options,
                                                                      std::span<const MegaHertz> clocks);

/// Digest of everything that a fit depends on.
[[nodiscard]] std::uint64_t digest_of(std::span<const predict::StepSample> samples);

/// Loads a file written by `wattle fit PROFILE`, given as a path or next to the recipe. Errors: missing file; those of
/// parse_belief.
[[nodiscard]] Result<predict::LinearBelief> load_belief(const std::string& file, const std::string& recipe_file);

/// The value of Beliefs::clocks for this predictor: with a file the range of its clocks; the simulated engine is
/// profiled at every clock that is needed. Errors: those of load_belief.
[[nodiscard]] Result<MeasuredClocks> clocks_believed(const PredictorOptions& predictor, const std::string& recipe_file);

/// Number of predictions outside the measured range. Models fitted to the simulated engine are profiled wherever they
/// are needed and count none.
[[nodiscard]] std::int64_t extrapolations(std::span<const std::shared_ptr<const LatencyModel>> beliefs);

}  // namespace wattle::calibrate
