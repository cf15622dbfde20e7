#pragma once
// What the control plane believes about a simulated engine: profiled offline as one would profile real hardware, then
// fitted. The only way from truth (engine/) to belief (predict/).
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "config/recipe.h"
#include "engine/options.h"
#include "engine/step_model.h"
#include "predict/belief_file.h"
#include "predict/gbdt/gbdt_latency.h"
#include "predict/linear_fit.h"

namespace wattle::apps {

/// The clocks a recipe lets its eco-freq instances choose from, ascending, each once.
[[nodiscard]] std::vector<MegaHertz> clocks_to_profile(const config::Recipe& recipe);

/// The published grid (VoltanaLLM): decode batches {8k, 8k+1} to 128 and {128k, 128k+1} to 1024, plus 1, 4 and 5, as
/// far as max_num_seqs allows, at six KV fill levels from 2 % to 95 % of the cache; prompt tokens from 64 to
/// max_num_batched_tokens, as one prompt and as prompts of 256. Deterministic.
[[nodiscard]] std::vector<predict::StepSample> profile_engine(const engine::StepModel& model,
                                                              const engine::EngineOptions& options,
                                                              std::span<const MegaHertz> clocks);

/// Profiles and fits; equal profiles are fitted once in this process. A few milliseconds the first time. Callable from
/// any thread (the StepModel must be the caller's own). Errors: no clock; a profile without usable samples.
[[nodiscard]] Result<std::shared_ptr<const predict::LinearFit>> fit_latency(const engine::StepModel& model,
                                                                            const engine::EngineOptions& options,
                                                                            std::span<const MegaHertz> clocks);

/// GreenServe's offline profile: steps drawn uniformly from the feasible ranges, 400 decode steps and 100 prefill steps
/// a clock. Deterministic.
[[nodiscard]] std::vector<predict::StepSample> sample_engine(const engine::StepModel& model,
                                                             const engine::EngineOptions& options,
                                                             std::span<const MegaHertz> clocks);

/// Trains boosted models on that profile; equal profiles are trained on once in this process. Seconds the first time.
/// Callable from any thread, as fit_latency. Errors: no clock; what XGBoost says.
[[nodiscard]] Result<std::shared_ptr<const predict::GbdtLatency>> train_latency(const engine::StepModel& model,
                                                                                const engine::EngineOptions& options,
                                                                                std::span<const MegaHertz> clocks);

/// throttLL'eM's M from its own collection procedure (apps/rate_profile.h) for decodes; prompts, which M does not know,
/// by fit_latency's lines. Trained once per equal profile, seconds the first time. Callable from any thread, as
/// fit_latency. Errors: no clock; what XGBoost says.
[[nodiscard]] Result<std::shared_ptr<const LatencyModel>> train_rates(const engine::StepModel& model,
                                                                      const engine::EngineOptions& options,
                                                                      std::span<const MegaHertz> clocks);

/// The latency belief that the recipe's `predictor` names, for the instances this model simulates; with a
/// `predictor_file`, what that file says of every instance. Errors: of the file, with line and column; a file for a
/// predictor that is not linear.
[[nodiscard]] Result<std::shared_ptr<const LatencyModel>> believe_latency(const config::Recipe& recipe,
                                                                          const engine::StepModel& model,
                                                                          const engine::EngineOptions& options,
                                                                          std::span<const MegaHertz> clocks);

/// A belief file of `wattle fit PROFILE`, by its path or beside the recipe. Errors: missing, or as parse_belief has
/// them.
[[nodiscard]] Result<predict::LinearBelief> load_belief(const std::string& file, const std::string& recipe_file);

/// Predictions these beliefs were asked for outside the range they were measured in. Beliefs fitted to the simulated
/// engine are profiled where they are asked and count none.
[[nodiscard]] std::int64_t extrapolations(std::span<const std::shared_ptr<const LatencyModel>> beliefs);

}  // namespace wattle::apps
