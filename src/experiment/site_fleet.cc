#include "experiment/site_fleet.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/sweet_clock.h"
#include "config/fleet_check.h"
#include "config/nodes.h"
#include "config/service.h"
#include "config/sites.h"
#include "experiment/load_profile.h"

namespace wattle::experiment {

namespace {

/// Latencies count as kept when nine of ten are, unless a recipe says how many (ours; the paper rates workers by their
/// means).
constexpr double kQuantile = 0.9;
/// Of a measurement: with 1500 the p90 of some large workers is rated too high. From 3000 to 12000 ratings are the
/// same.
constexpr std::int64_t kRequests = 6000;

/// The colocated pools of one GPU alone.
config::LoadedScenario only(const config::LoadedScenario& loaded, const std::string& gpu) {
  config::LoadedScenario some = loaded;
  some.scenario.pools.clear();
  some.gpus.clear();
  for (std::size_t p = 0; p < loaded.scenario.pools.size(); ++p) {
    if (loaded.scenario.pools[p].gpu != gpu || loaded.scenario.pools[p].role != Role::Colocated) continue;
    some.scenario.pools.push_back(loaded.scenario.pools[p]);
    some.gpus.push_back(loaded.gpus[p]);
  }
  return some;
}

std::size_t kind_of(systems::SiteFleet& fleet, const std::string& gpu) {
  const auto found = std::ranges::find(fleet.kinds, gpu, &systems::SiteFleet::Kind::gpu);
  if (found == fleet.kinds.end()) fleet.kinds.push_back({gpu, nullptr});
  return static_cast<std::size_t>(std::ranges::find(fleet.kinds, gpu, &systems::SiteFleet::Kind::gpu) -
                                  fleet.kinds.begin());
}

Result<void> add_nodes(systems::SiteFleet& fleet, const config::LoadedScenario& loaded) {
  const auto nodes = config::nodes_of(loaded.scenario);
  if (nodes.empty()) return bad_input(loaded.scenario.file, "the recipe plans over sites: state their [[node]]s");
  for (const Node& node : nodes) {
    const auto kind = std::ranges::find(fleet.kinds, node.gpu, &systems::SiteFleet::Kind::gpu);
    if (kind == fleet.kinds.end()) {
      return bad_input(loaded.scenario.file,
                       fmt::format("the recipe plans over sites: node {} needs the gpu of a [[fleet]], and a site",
                                   node.id.value()));
    }
    const auto site = static_cast<std::size_t>(node.site.value());
    const auto k = static_cast<std::size_t>(kind - fleet.kinds.begin());
    fleet.nodes.push_back({site, k, node.gpus});
  }
  return {};
}

LoadProfileRequest as_rated(const systems::Recipe& recipe) {
  LoadProfileRequest request;
  request.options.quantile = recipe.profiled_quantile.value_or(kQuantile);
  request.options.requests = kRequests;
  request.options.clocks.clear();
  return request;
}

auto pair_rater(const config::LoadedScenario& loaded, const systems::Recipe& recipe, const std::string& data_dir,
                const std::vector<systems::SiteFleet::Shape>& shapes) {
  return [loaded, recipe, data_dir, shapes](const PairShape& pair, bool sweet) {
    const auto& prefill = shapes[pair.prefill];
    const auto& decode = shapes[pair.decode];
    return pair_profile(loaded, recipe.classes, data_dir,
                        {pair, sweet ? prefill.sweet : prefill.top, sweet ? decode.sweet : decode.top},
                        as_rated(recipe));
  };
}

/// The value at a time; beyond the data the nearest one.
template <typename Value>
std::optional<Value> known(const carbon::Series<Value>& series, Instant now) {
  return series.covers(now) ? std::optional(series.at(now)) : std::nullopt;
}

/// Tenants that may be at the same sites, together.
void add_kept(systems::SiteFleet& fleet, const std::vector<Tenant>& tenants) {
  double all = 0.0;
  for (const Tenant& tenant : tenants) all += tenant.share;
  for (const Tenant& tenant : tenants) {
    if (!tenant.residency.stated() || all <= 0.0) continue;
    auto found = std::ranges::find(fleet.kept, tenant.residency, &systems::SiteFleet::Kept::sites);
    if (found == fleet.kept.end()) found = fleet.kept.insert(found, {tenant.residency, 0.0});
    found->share += tenant.share / all;
  }
}

}  // namespace

Result<std::shared_ptr<const systems::SiteFleet>> site_fleet(
    const config::LoadedScenario& loaded, const systems::Recipe& recipe, const std::string& data_dir,
    const std::vector<std::unique_ptr<engine::StepModel>>& models,
    std::shared_ptr<const std::vector<carbon::SiteRates>> sites) {
  if (auto ok = config::check_tensor_parallel_only(loaded, "a plan across sites"); !ok) {
    return std::unexpected(ok.error());
  }
  const auto& scenario = loaded.scenario;
  if (std::ranges::find(scenario.pools, Role::Colocated, &config::PoolOptions::role) == scenario.pools.end()) {
    return bad_input(scenario.file,
                     "the recipe plans workers of colocated instances: some [[fleet]] has to be of them");
  }
  auto fleet = std::make_shared<systems::SiteFleet>();
  for (const auto& site : *sites) fleet->sites.push_back(site.name);
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    const auto& pool = scenario.pools[p];
    systems::SiteFleet::Shape shape;
    shape.site = static_cast<std::size_t>(config::site_of(scenario, pool).value());
    shape.kind = kind_of(*fleet, pool.gpu);
    shape.tensor_parallel = pool.tensor_parallel;
    shape.role = pool.role;
    shape.top = loaded.gpus[p].clock_max;
    shape.sweet = calibrate::sweet_clock(*models[p], config::engine_of(scenario, pool), pool.role);
    fleet->shapes.push_back(shape);
  }
  if (auto ok = add_nodes(*fleet, loaded); !ok) return std::unexpected(ok.error());
  add_kept(*fleet, config::make_service(scenario).tenants);
  fleet->pairs = config::pairs_of(scenario);
  fleet->rate_pair = pair_rater(loaded, recipe, data_dir, fleet->shapes);
  for (std::size_t k = 0; k < fleet->kinds.size(); ++k) {
    LoadProfileRequest request = as_rated(recipe);
    for (const auto& shape : fleet->shapes) {
      if (shape.kind != k || shape.role != Role::Colocated) continue;
      request.options.clocks.insert(request.options.clocks.end(), {shape.top, shape.sweet});
    }
    if (request.options.clocks.empty()) continue;
    std::ranges::sort(request.options.clocks);
    const auto repeated = std::ranges::unique(request.options.clocks);
    request.options.clocks.erase(repeated.begin(), repeated.end());
    auto loads = kind_profile(only(loaded, fleet->kinds[k].gpu), recipe.classes, data_dir, request);
    if (!loads) return std::unexpected(loads.error());
    fleet->kinds[k].loads = std::move(*loads);
  }
  fleet->intensity = [sites](std::size_t site, Instant now) { return known((*sites)[site].deciding(), now); };
  if (std::ranges::any_of(*sites, &carbon::SiteRates::pays_for_energy)) {
    fleet->price = [sites](std::size_t site, Instant now) { return known((*sites)[site].electricity, now); };
  }
  return fleet;
}

}  // namespace wattle::experiment
