#include "experiment/lowest_clocks.h"

#include <algorithm>

#include "calibrate/sweet_clock.h"
#include "config/make_step_model.h"
#include "config/service.h"
#include "systems/compose.h"

namespace wattle::experiment {

Result<std::map<int, MegaHertz>> lowest_clocks(const config::LoadedScenario& loaded, const systems::Recipe& recipe) {
  std::map<int, MegaHertz> lowest;
  if (config::make_service(loaded.scenario, recipe.classes).classes.tiers() == 1) return lowest;
  for (std::size_t p = 0; p < loaded.scenario.pools.size(); ++p) {
    const auto& pool = loaded.scenario.pools[p];
    InstanceSpec spec;
    spec.role = pool.role;
    spec.gpu = loaded.gpus[p];
    spec.tensor_parallel = pool.gpus();
    spec.clocks = supported_clocks(loaded.gpus[p]);
    if (systems::needs_sweet_clock(recipe)) {
      const auto engine = config::engine_of(loaded.scenario, pool);
      const auto model = config::make_step_model(loaded.gpus[p], loaded.llm, pool.parallelism(), engine);
      if (!model) return std::unexpected(model.error());
      calibrate::set_sweet_spot(spec, *model, engine);
    }
    const auto clocks = systems::clocks_to_predict(recipe, spec);  // ascending
    if (clocks.empty()) continue;
    const auto known = lowest.try_emplace(pool.tensor_parallel, clocks.front()).first;
    known->second = std::min(known->second, clocks.front());
  }
  return lowest;
}

}  // namespace wattle::experiment
