#include "gateway_policies.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "systems/compose.h"

namespace wattle::apps {

namespace {

/// Fills in defaults and checks what can be checked without a measurement.
Result<void> complete(experiment::LiveFleet& fleet, gateway::WorkerOptions& worker) {
  if (worker.kv_capacity_tokens == 0) {
    const auto capacity = fleet.kv_capacity_tokens(worker.tensor_parallel);
    if (!capacity) return std::unexpected(capacity.error());
    worker.kv_capacity_tokens = *capacity;
  }
  if (systems::needs_step_reports(fleet.recipe()) && worker.step_reports.empty()) {
    return bad_input("step_reports (--worker URL,fpm=ENDPOINT)",
                     fleet.recipe().name + " looks at iterations: say where it publishes forward-pass metrics");
  }
  return fleet.check_scenario(worker.tensor_parallel);
}

/// Describes a worker for the recipe's policies and completes its options. May take seconds, so it does not run on the
/// control strand. `admission`: the fleet's. `hosted`: the gateway chooses its clock.
Result<gateway::GatewayPolicies::Instance> describe(experiment::LiveFleet& fleet, gateway::WorkerOptions& worker,
                                                    const Slo& slo,
                                                    const std::shared_ptr<policy::AdmissionPolicy>& admission,
                                                    bool hosted) {
  if (auto ok = complete(fleet, worker); !ok) return std::unexpected(ok.error());
  auto described = fleet.describe(worker.role, worker.tensor_parallel, slo);
  if (!described) return std::unexpected(described.error());
  described->weight = worker.weight;
  described->kv_capacity_tokens = worker.kv_capacity_tokens;
  gateway::GatewayPolicies::Instance made{
      std::make_shared<const InstanceSpec>(std::move(*described)), {}, fleet.learner(worker.tensor_parallel)};
  if (!hosted) return made;
  auto clock = systems::make_clock_policy(fleet.recipe(), *made.spec, admission);
  if (!clock) return std::unexpected(clock.error());
  made.clock = std::move(*clock);
  return made;
}

}  // namespace

Result<gateway::GatewayPolicies> make_policies(experiment::LiveFleet& fleet, const gateway::GatewayOptions& options) {
  const auto& recipe = fleet.recipe();
  gateway::GatewayPolicies made;
  made.hosts_clocks = systems::clock_shares_admission(recipe, Role::Colocated);
  if (made.hosts_clocks && options.agents.urls.empty()) {
    return bad_input("--agent", fmt::format("{} decides clocks here; say where the GPUs' agents listen", recipe.name));
  }
  for (gateway::WorkerOptions worker : options.workers) {
    if (auto ok = complete(fleet, worker); !ok) return std::unexpected(ok.error());
  }
  auto dispatch = systems::make_dispatch_policies(recipe);
  if (!dispatch) return std::unexpected(dispatch.error());
  made.dispatch = std::move(*dispatch);
  auto lengths = systems::make_length_learner(recipe);
  if (!lengths) return std::unexpected(lengths.error());
  made.lengths = std::move(*lengths);
  made.queueing = recipe.queueing.policy;
  made.describe = [&fleet, slo = options.service.judged(options.slo).strictest(),
                   admission = made.dispatch.admission.policy, hosted = made.hosts_clocks](
                      gateway::WorkerOptions& worker) { return describe(fleet, worker, slo, admission, hosted); };
  made.extrapolations = [&fleet] { return fleet.extrapolations(); };
  return made;
}

}  // namespace wattle::apps
