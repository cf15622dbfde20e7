#pragma once
// What a worker of FREESH's pools may be made of, and what each carries as it was measured.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "managers/site_pools.h"
#include "plan/load_table.h"
#include "systems/registry.h"
#include "systems/site_fleet.h"

namespace wattle::systems {

/// GPUs of one kind, or those of a P/D pair's two instances.
struct PoolMode {
  SiteFleet::Shape of;  ///< at some site; of a pair its prefill instance
  std::optional<SiteFleet::Shape> decode = std::nullopt;
  std::shared_ptr<const plan::LoadTable> loads;
};

struct WantedModes {
  std::int32_t tensor_parallel = 0;  ///< GPUs of each instance; 0: any number
  std::vector<std::string> pairs;    ///< "GPU+GPU", prefill first; "all": any there may be
  bool sweet = false;                ///< rated at SiteFleet::Shape::sweet
};

/// Names modes in the problem, and shapes by site and mode; rates pairs. Errors: a pair that no site has; those of
/// SiteFleet::rate_pair.
[[nodiscard]] Result<std::vector<PoolMode>> add_modes(const WantedModes& wanted, const Making& making,
                                                      managers::SitePoolsSetup& setup);

/// A type of each class, as workers were measured on the simulated engines.
[[nodiscard]] std::vector<plan::PoolType> measured_types(const SiteFleet& fleet, const std::vector<PoolMode>& modes,
                                                         bool sweet);

/// plan::may_be_late by class, with the mode that serves it best.
[[nodiscard]] std::vector<double> may_be_late(const std::vector<PoolMode>& modes, double late);

/// Of some kind that has them: classes and limits are the same in all.
[[nodiscard]] const plan::LoadTable& any_loads(const SiteFleet& fleet);

/// What tenants' data residency says of a type's requests.
void keep(const SiteFleet& fleet, plan::PoolType& type);

}  // namespace wattle::systems
