#pragma once
// What a scaling policy plans by, besides its own options.
#include <map>
#include <memory>
#include <vector>

#include "config/nodes.h"
#include "plan/load_table.h"
#include "policy/scaling/scaling.h"
#include "systems/site_fleet.h"

namespace wattle::systems {

struct ScalingInputs {
  std::vector<policy::Shape> shapes = {};
  std::shared_ptr<const plan::LoadTable> loads = nullptr;  ///< where needs_load_profile
  /// Requests per second by class and slot before the run; where either of the others.
  std::vector<std::vector<double>> past = {};
  std::shared_ptr<const SiteFleet> sites = nullptr;  ///< where needs_sites
  config::Cluster cluster = {};
  /// The lowest clock that instances at work are given, by TP degree; empty: any.
  std::map<int, MegaHertz> lowest_clocks = {};
};

}  // namespace wattle::systems
