#include "reproduce/voltanallm.h"

#include <fmt/core.h>

#include "config/locate.h"

namespace wattle::reproduce {

Result<config::LoadedScenario> published_scenario(const PublishedModel& model, const PublishedLengths& lengths,
                                                  std::int64_t rate, const std::vector<std::string>& more) {
  std::vector<std::string> set{
      fmt::format("llm={}", model.llm),
      fmt::format("workload.rate_per_s={}", rate),
      fmt::format("workload.requests={}", static_cast<std::int64_t>(static_cast<double>(rate) * kRunSeconds)),
      fmt::format("workload.prompt_mean={}", lengths.prompt_mean),
      fmt::format("workload.prompt_std={}", lengths.prompt_std),
      fmt::format("workload.output_mean={}", lengths.output_mean),
      fmt::format("workload.output_std={}", lengths.output_std),
      fmt::format("slo.ttft_ms={}", model.ttft_ms),
      fmt::format("slo.itl_ms={}", model.itl_ms),
      fmt::format("slo.tbt_ms={}", model.itl_ms),
      fmt::format("fleet.0.tensor_parallel={}", model.tensor_parallel),
      fmt::format("fleet.1.tensor_parallel={}", model.tensor_parallel),
  };
  set.insert(set.end(), more.begin(), more.end());
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return config::load_scenario("voltanallm-2p2d", *overrides, config::project());
}

Result<systems::LoadedRecipe> published_recipe(const char* name, const std::vector<std::string>& more) {
  std::vector<std::string> set{kMargin, kPrefillRouting};
  set.insert(set.end(), more.begin(), more.end());
  const auto overrides = config::parse_overrides(set);
  if (!overrides) return std::unexpected(overrides.error());
  return systems::load_recipe(name, *overrides, config::project(), systems::Unfit::Ignored);
}

Joules published_energy(const journal::RunSummary& run) { return run.energy.total - run.energy.idle_tail; }

}  // namespace wattle::reproduce
