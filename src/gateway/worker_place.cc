#include "gateway/worker_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace wattle::gateway {

namespace {

std::unexpected<Error> wrong(std::string_view flag, std::string_view key, std::string what) {
  return bad_input(std::string(flag.empty() ? key : flag), std::move(what));
}

Result<control::ModelMask> models_of(const WorkerOptions& worker, const GatewayOptions& options,
                                     std::string_view flag) {
  if (worker.models.empty()) return control::kEveryModel;
  if (options.models_alike) {
    return wrong(flag, "models", "this recipe decides for the fleet as one: its workers all have the same models");
  }
  control::ModelMask mask = 0;
  for (const std::string& name : worker.models) {
    const auto found = std::ranges::find(options.models, name);
    if (found == options.models.end()) return wrong(flag, "models", "there is no --model \"" + name + "\"");
    mask |= control::ModelMask{1} << (found - options.models.begin());
  }
  return mask;
}

Result<PoolId> pool_of(const WorkerOptions& worker, const GatewayOptions& options, const Classifier& classes,
                       std::string_view flag) {
  if (!worker.type.empty()) {
    if (const auto found = classes.find(worker.type)) return PoolId(found->value());
    std::string known;
    for (std::int32_t c = 0; c < classes.size(); ++c) known += " " + classes.name(ClassId(c));
    return wrong(flag, "type", "there is no class \"" + worker.type + "\"; requests are of" + known);
  }
  const auto& pools = options.service.pools;
  if (worker.pool.empty()) {
    if (pools.empty() || static_cast<std::size_t>(worker.pool_id.value()) < pools.size()) return worker.pool_id;
    return wrong(flag, "pool",
                 fmt::format("there is no pool {}; the scenario states pools 0 to {}", worker.pool_id.value(),
                             pools.size() - 1));
  }
  const auto of = std::ranges::find(pools, worker.pool, &Pool::name);
  if (of == pools.end()) return wrong(flag, "pool", "there is no pool \"" + worker.pool + "\"");
  return of->id;
}

}  // namespace

Result<WorkerPlace> place_of(const WorkerOptions& worker, const GatewayOptions& options, const Classifier& classes,
                             std::string_view flag) {
  const auto models = models_of(worker, options, flag);
  if (!models) return std::unexpected(models.error());
  const auto site = std::ranges::find(options.sites, worker.site, &carbon::SiteRates::name);
  if (!worker.site.empty() && site == options.sites.end()) {
    return wrong(flag, "site", "there is no site \"" + worker.site + "\"");
  }
  const auto pool = pool_of(worker, options, classes, flag);
  if (!pool) return std::unexpected(pool.error());
  return WorkerPlace{*models, SiteId(worker.site.empty() ? 0 : static_cast<std::int32_t>(site - options.sites.begin())),
                     *pool};
}

}  // namespace wattle::gateway
