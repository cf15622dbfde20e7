#pragma once
// A fleet over sites as a planner of pools sees it: what stands where, what it carries, what electricity is like there.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/instance.h"
#include "model/plan.h"
#include "model/request.h"
#include "plan/load_table.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::systems {

struct SiteFleet {
  struct Kind {
    std::string gpu;
    /// Classes of the run, at Shape::top and Shape::sweet, of colocated instances; null: there are none of it.
    std::shared_ptr<const plan::LoadTable> loads;
  };
  /// One of the fleet's shapes.
  struct Shape {
    std::size_t site = 0, kind = 0;
    int tensor_parallel = 1;
    MegaHertz top, sweet;
    Role role = Role::Colocated;  ///< others are halves of `pairs`
  };
  struct Machine {
    std::size_t site = 0, kind = 0;
    int gpus = 0;
  };
  std::vector<Kind> kinds;
  std::vector<std::string> sites;  ///< their names, by SiteId
  std::vector<Shape> shapes;       ///< as policies name them
  /// P/D pairs of shapes, each at one site. Policies name them by numbers from shapes.size() on.
  std::vector<PairShape> pairs = {};
  /// What one of them carries, as Kind::loads has it: both at their top clocks, or their sweet ones.
  std::function<Result<std::shared_ptr<const plan::LoadTable>>(const PairShape& pair, bool sweet)> rate_pair;
  std::vector<Machine> nodes;  ///< by NodeId
  /// Tenants' data residency: this share of all requests may be computed at these sites alone.
  struct Kept {
    Residency sites;
    double share = 0.0;
  };
  std::vector<Kept> kept;
  /// As it is known at that time; none: unknown.
  std::function<std::optional<GramsPerKwh>(std::size_t site, Instant now)> intensity;
  /// Of electricity, likewise; empty: no site states one.
  std::function<std::optional<UsdPerMwh>(std::size_t site, Instant now)> price;
};

}  // namespace wattle::systems
