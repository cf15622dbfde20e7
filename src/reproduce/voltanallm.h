#pragma once
// What VoltanaLLM's and GreenServe's sections share: the models, lengths and scenario of their evaluations.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "journal/record.h"
#include "journal/summary.h"
#include "reproduce/evaluation.h"
#include "systems/recipe.h"

namespace wattle::reproduce {

struct PublishedModel {
  std::string_view name;
  const char* llm;
  int tensor_parallel;
  int ttft_ms;
  int itl_ms;
};
inline constexpr auto kModels = std::to_array<PublishedModel>({
    {"Ministral-3B", "ministral-3b", 1, 200, 20},
    {"Llama-3.1-8B", "llama-3.1-8b", 1, 600, 60},
    {"Qwen3-32B", "qwen3-32b", 2, 1200, 120},
});

/// Published means and standard deviations, in tokens; the scenario draws lognormal lengths with these moments.
struct PublishedLengths {
  std::string_view name;
  std::string_view id;
  int prompt_mean, prompt_std, output_mean, output_std;
};
inline constexpr auto kLengths = std::to_array<PublishedLengths>({
    {"ShareGPT", "sharegpt", 280, 376, 191, 209},
    {"LMSYS", "lmsys", 78, 133, 175, 166},
});

/// The papers' 2P2D scenario with this model, these lengths and `rate` requests/s, which arrive for kRunSeconds.
/// `more`: further overrides, key=value.
[[nodiscard]] Result<config::LoadedScenario> published_scenario(const PublishedModel& model,
                                                                const PublishedLengths& lengths, std::int64_t rate,
                                                                const std::vector<std::string>& more = {});

/// A recipe as the paper ran it: EcoFreq was given less than the objectives (kMargin), and kPrefillRouting.
[[nodiscard]] Result<systems::LoadedRecipe> published_recipe(const char* name,
                                                             const std::vector<std::string>& more = {});

/// The published client gives EcoFreq 45 ms between tokens (and ten times that to the first); attainment is judged at
/// 60 ms.
inline constexpr const char* kMargin = "frequency.margin=0.25";

/// The paper's text has prefill instances take turns; both of the load balancers published with it, under every policy
/// for decodes, draw one at random.
inline constexpr const char* kPrefillRouting = "routing.prefill.policy=random";

/// Energy as the papers' client counts it: each instance until its last request is done. A run's total includes all
/// instances until the end of the last one.
[[nodiscard]] Joules published_energy(const journal::RunSummary& run);

/// Figure 13: energy and attainment against rate, static clocks and controlled.
[[nodiscard]] Result<Section> voltanallm_main();
/// The same section's rows as published, ours left at nothing.
[[nodiscard]] Result<std::vector<Row>> published_rows();
[[nodiscard]] Result<Section> voltanallm_left_out();  ///< each model with CPU times chosen on the others
/// EcoPred's mean absolute errors, offline and online.
[[nodiscard]] Result<Section> ecopred_errors();

}  // namespace wattle::reproduce
