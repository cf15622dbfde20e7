#include "experiment/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "base/check.h"
#include "calibrate/beliefs.h"
#include "calibrate/service_time.h"
#include "calibrate/sweet_clock.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "config/nodes.h"
#include "config/service.h"
#include "config/sites.h"
#include "experiment/engine_limits.h"
#include "experiment/load_profile.h"
#include "experiment/lowest_clocks.h"
#include "experiment/site_fleet.h"
#include "systems/compose.h"

namespace wattle::experiment {

namespace {

InstanceSpec spec_of(const config::LoadedScenario& loaded, std::size_t p) {
  const auto& pool = loaded.scenario.pools[p];
  InstanceSpec spec;
  spec.role = pool.role;
  spec.gpu = loaded.gpus[p];
  spec.llm = loaded.llm;
  spec.tensor_parallel = pool.gpus();
  spec.weight = pool.weight;
  spec.clocks = supported_clocks(loaded.gpus[p]);
  spec.clock_delay = loaded.scenario.clock_delays.whole();
  set_limits(spec, loaded.scenario.engine.of_groups(pool.data_parallel));
  spec.slo = config::make_service(loaded.scenario).judged(loaded.scenario.slo).strictest();
  // Without [[pool]]s each [[fleet]] entry is one.
  spec.pool = loaded.scenario.serving_pools.empty() ? PoolId(static_cast<std::int32_t>(p))
                                                    : config::pool_named(loaded.scenario, pool.pool);
  spec.site = config::site_of(loaded.scenario, pool);
  return spec;
}

}  // namespace

journal::RunFacts run_facts(const config::LoadedScenario& loaded, const std::string& recipe, const std::string& driver,
                            const config::ClassOptions& classes) {
  const auto& scenario = loaded.scenario;
  journal::RunFacts facts;
  facts.scenario = scenario.name;
  facts.recipe = recipe;
  facts.driver = driver;
  facts.seed = scenario.seed;
  facts.slo = scenario.slo;
  facts.service = config::make_service(scenario, classes);
  facts.service.tenants.clear();
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    const auto& pool = scenario.pools[p];
    for (std::int32_t i = 0; i < pool.count; ++i) {
      const InstanceId id(static_cast<std::int32_t>(facts.instances.size()));
      facts.instances.push_back({id, spec_of(loaded, p)});
    }
  }
  return facts;
}

namespace {

/// Makes instances of one pool, before and during the run.
struct PoolMaker {
  systems::Recipe recipe;
  std::shared_ptr<const InstanceSpec> spec;
  const engine::StepModel* model = nullptr;
  predict::OnlineLatency* learner = nullptr;
  std::shared_ptr<policy::AdmissionPolicy> admission;
  std::shared_ptr<const plan::LoadTable> loads;
  std::int32_t data_groups = 1;

  [[nodiscard]] Result<sim::InstanceSetup> make(InstanceId id) const {
    auto clock = systems::make_clock_policy(recipe, *spec, admission, loads);
    if (!clock) return std::unexpected(clock.error());
    sim::InstanceSetup instance;
    instance.id = id;
    instance.spec = spec;
    instance.model = model;
    instance.initial_clock = spec->gpu.clock_max;
    instance.frequency = std::move(*clock);
    instance.data_groups = data_groups;
    instance.learner = learner;
    instance.overrun_slack = systems::overrun_slack(recipe, spec->role);
    return instance;
  }
};

/// As the scenario states; by default relative to a request's time alone.
FairnessBasis fairness_of(const config::LoadedScenario& loaded,
                          const std::vector<std::unique_ptr<engine::StepModel>>& models) {
  const auto& stated = loaded.scenario.fairness;
  const auto first = [&](Role other) {
    const auto found =
        std::ranges::find_if(loaded.scenario.pools, [&](const auto& pool) { return pool.role != other; });
    return static_cast<std::size_t>(found - loaded.scenario.pools.begin()) % models.size();
  };
  const std::size_t prefill = first(Role::Decode);
  const auto alone =
      calibrate::service_time(*models[prefill], *models[first(Role::Prefill)], loaded.gpus[prefill].clock_max);
  return {{stated.ttft > Span() ? stated.ttft : alone.ttft, stated.tbt > Span() ? stated.tbt : alone.tbt},
          stated.window,
          stated.limit};
}

/// Each pool and pair becomes a shape. Also sets the machines: GPUs of a machine without an instance draw idle power.
void set_machines(sim::ScalingSetup& made, const config::LoadedScenario& loaded,
                  const std::vector<std::shared_ptr<const PoolMaker>>& pools) {
  for (std::size_t p = 0; p < pools.size(); ++p) {
    const auto& pool = loaded.scenario.pools[p];
    const auto make = [maker = pools[p]](InstanceId id) {
      auto instance = maker->make(id);
      WATTLE_CHECK(instance.has_value(), "what was made once can be made again");
      return std::move(*instance);
    };
    made.shapes.push_back({pool.gpus(), pool.max_load_per_s, make, pools[p]->spec->pool,
                           config::nodes_for(loaded.scenario, p), pool.role});
    made.shape_of.insert(made.shape_of.end(), static_cast<std::size_t>(pool.count), p);
  }
  for (const PairShape& pair : config::pairs_of(loaded.scenario)) {
    auto& shape = made.shapes.emplace_back();
    shape.gpus = made.shapes[pair.prefill].gpus + made.shapes[pair.decode].gpus;
    shape.pool = made.shapes[pair.prefill].pool;
    shape.pair = pair;
  }
  made.nodes = config::nodes_of(loaded.scenario);
  made.idle_gpu = config::idle_gpus_of(loaded.scenario);
}

/// Each pool becomes a shape that may be started; for a recipe without scaling, only the instances' places.
Result<sim::ScalingSetup> make_scaling(const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe,
                                       const std::vector<std::shared_ptr<const PoolMaker>>& pools,
                                       systems::ScalingInputs inputs) {
  sim::ScalingSetup made;
  const auto& scaling = recipe.recipe.scaling;
  const bool scales = recipe.recipe.scales();
  if (!scales && loaded.scenario.nodes.empty()) return made;
  set_machines(made, loaded, pools);
  if (!scales) return made;
  const auto& spawn = loaded.scenario.spawn;
  for (const auto& pool : loaded.scenario.pools) {
    inputs.shapes.push_back({pool.gpus(), pool.max_load_per_s, spawn.load + spawn.warm});
  }
  inputs.cluster = config::cluster_of(loaded);
  auto policy = systems::make_scaling_policy(recipe.recipe, std::move(inputs));
  if (!policy) return std::unexpected(policy.error());
  made.policy = {std::move(*policy), scaling.mode};
  made.period = recipe.recipe.scaling_period;
  made.surge = recipe.recipe.scaling_surge;
  made.load_time = spawn.load;
  made.warm_time = spawn.warm;
  made.reshard = config::reshard_problem(loaded);
  made.at_once = recipe.recipe.scaling_at_once;
  made.beside_draining = spawn.beside_draining;
  return made;
}

Result<void> check_scaling(const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe) {
  const auto& pools = loaded.scenario.pools;
  const auto other = std::ranges::find_if(pools, [](const auto& pool) { return pool.role != Role::Colocated; });
  if (!recipe.recipe.scales() || other == pools.end() || systems::needs_sites(recipe.recipe)) return {};
  return bad_input(
      recipe.origins.of("scaling.policy"),
      "only colocated instances are scaled; the scenario has others, of which FREESH's recipes start pairs "
      "(scaling.pairs)");
}

/// A fleet that a planner sizes by classes begins as its first plan says, whatever the scenario's counts.
Result<void> begin_as_planned(PreparedRun& run, const config::LoadedScenario& loaded,
                              const std::vector<std::shared_ptr<const PoolMaker>>& makers) {
  auto& setup = run.setup;
  control::GpuSlots slots(setup.scaling.nodes);
  const std::vector<double> none = {0.0};
  policy::ScalingView view;
  view.rate_per_s = none;
  const Plan plan = setup.scaling.policy.policy->plan(view);
  setup.instances.clear();
  setup.scaling.shape_of.clear();
  setup.scaling.weights = plan.weights;
  run.facts.instances.clear();
  for (const PlanTarget& target : plan.instances) {
    for (std::int32_t i = 0; i < target.count; ++i) {
      InstanceId decode = kNoInstance;
      for (const std::size_t half : config::instances_of(target.shape, loaded.scenario)) {
        const auto& stands = setup.scaling.shapes[half];
        if (const auto place = slots.place(half, stands.gpus, std::nullopt, stands.nodes)) {
          slots.take(place->node, place->gpus);
        } else {
          return bad_input(loaded.scenario.file,
                           fmt::format("the first plan has {} instances of [[fleet]] {} with {} GPUs each, and no "
                                       "[[node]] has room for number {}: see node.gpus, node.count",
                                       target.count, half, stands.gpus, i + 1));
        }
        const InstanceId id(static_cast<std::int32_t>(setup.instances.size()));
        auto instance = makers[half]->make(id);
        WATTLE_CHECK(instance.has_value(), "what was made once can be made again");
        InstanceSpec spec = *instance->spec;
        spec.pool = target.pool.value_or(spec.pool);
        spec.decode = std::exchange(decode, id);
        if (target.weight > 0.0) spec.weight = target.weight;
        instance->spec = std::make_shared<const InstanceSpec>(std::move(spec));
        run.facts.instances.push_back({id, *instance->spec});
        setup.instances.push_back(std::move(*instance));
        setup.scaling.shape_of.push_back(target.shape);
      }
    }
  }
  if (setup.instances.empty()) return bad_input("the first plan", "has no instance: " + plan.why());
  return {};
}

/// What sizes the fleet, and the fleet that it begins with.
Result<void> set_scaling(PreparedRun& run, const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe,
                         const std::string& data_dir, const std::vector<std::shared_ptr<const PoolMaker>>& makers) {
  if (systems::needs_sites(recipe.recipe)) {
    auto sites = site_fleet(loaded, recipe.recipe, data_dir, run.models,
                            std::make_shared<const std::vector<carbon::SiteRates>>(run.setup.sites));
    if (!sites) return std::unexpected(sites.error());
    run.sites = std::move(*sites);
  }
  const bool planned = run.loads != nullptr || run.sites != nullptr;
  systems::ScalingInputs inputs;
  inputs.loads = makers.front()->loads;
  inputs.sites = run.sites;
  if (planned) {
    const auto hint = systems::make_length_hint(recipe.recipe, run.setup.service.classes, loaded.scenario.seed);
    const auto busiest = busiest_rates(loaded, recipe.recipe.classes, data_dir, hint->get(), run.loads.get());
    if (!busiest) return std::unexpected(busiest.error());
    for (const double rate : *busiest) inputs.past.push_back({rate});
  }
  auto lowest = lowest_clocks(loaded, recipe.recipe);
  if (!lowest) return std::unexpected(lowest.error());
  inputs.lowest_clocks = std::move(*lowest);
  auto scaling = make_scaling(loaded, recipe, makers, std::move(inputs));
  if (!scaling) return std::unexpected(scaling.error());
  run.setup.scaling = std::move(*scaling);
  if (planned && run.setup.scaling.policy.policy != nullptr) {
    if (auto ok = begin_as_planned(run, loaded, makers); !ok) return std::unexpected(ok.error());
  }
  return {};
}

/// Without scaling, faults must name initial instances.
Result<void> check_faults(const sim::SimulationSetup& setup, const config::LoadedScenario& loaded) {
  if (setup.scaling.policy.policy != nullptr && setup.scaling.policy.mode == Mode::Enforce) return {};
  const auto& faults = loaded.scenario.faults;
  for (std::size_t f = 0; f < faults.size(); ++f) {
    const auto instance = static_cast<std::size_t>(faults[f].instance.value_or(0));
    if (instance < setup.instances.size()) continue;
    return bad_input(loaded.origins.of(fmt::format("fault.{}.instance", f)),
                     fmt::format("there is no instance {}; the fleet has {}, counted from 0, and no policy adds any",
                                 instance, setup.instances.size()));
  }
  return {};
}

/// Runs that measure a scenario read its files again and again.
void warn_once(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(line).second) fmt::print(stderr, "wattle: warning: {}\n", line);
}

/// What is over when the run begins did not happen; of the rest, what is left.
std::vector<sim::Fault> faults_of(const config::Scenario& scenario) {
  std::vector<sim::Fault> faults;
  for (const auto& fault : scenario.faults) {
    const Span down = fault.down.value_or(Span::max());
    const Span missed = std::max(Span(), scenario.begins - fault.at);
    if (missed > Span() && missed >= down) continue;
    sim::Fault made{Instant() + (fault.at + missed - scenario.begins),
                    InstanceId(fault.instance.value_or(0)),
                    down == Span::max() ? down : down - missed,
                    {},
                    fault.clock_share};
    if (fault.node) made.node = NodeId(*fault.node);
    faults.push_back(made);
  }
  return faults;
}

/// Sets sites and faults.
Result<void> set_places(journal::RunFacts& facts, sim::SimulationSetup& setup, const config::Scenario& scenario,
                        const std::string& data_dir) {
  setup.faults = faults_of(scenario);
  auto sites = config::make_sites(scenario, data_dir, {.at = {}, .warn = &warn_once});
  if (!sites) return std::unexpected(sites.error());
  if (!scenario.sites.empty()) {
    for (const auto& site : *sites) facts.sites.push_back({site.name, site.books_by, site.decisions_by});
  }
  if (scenario.begins > Span()) {
    const Instant origin = Instant() + scenario.begins;
    for (auto& site : *sites) {
      site.intensity = site.intensity.from(origin);
      site.electricity = site.electricity.from(origin);
      if (site.decisions) site.decisions = site.decisions->from(origin);
    }
  }
  setup.sites = std::move(*sites);
  auto trips = config::make_round_trips(scenario, data_dir);
  if (!trips) return std::unexpected(trips.error());
  setup.round_trips = std::move(*trips);
  return {};
}

}  // namespace

config::LoadedScenario alone(const config::LoadedScenario& loaded, std::size_t pool) {
  config::LoadedScenario one = loaded;
  one.scenario.pools = {loaded.scenario.pools.at(pool)};
  one.scenario.pools.front().count = 1;
  one.scenario.faults.clear();
  for (auto& site : one.scenario.sites) site.books = site.decisions = {};
  for (auto& tenant : one.scenario.tenants) tenant.residency.clear();  // other sites have no engine then
  one.gpus = {loaded.gpus.at(pool)};
  return one;
}

namespace {

/// All that depends on the recipe.
Result<PreparedRun> compose(const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe,
                            const std::string& data_dir, std::span<const RequestLatency> requests) {
  // Before anything is measured.
  if (auto ok = check_scaling(loaded, recipe); !ok) return std::unexpected(ok.error());
  const auto& scenario = loaded.scenario;
  PreparedRun run;
  run.facts = run_facts(loaded, recipe.recipe.name, "sim", recipe.recipe.classes);
  auto& setup = run.setup;
  setup.engine = scenario.engine;
  setup.link = scenario.link;
  setup.clock_delays = scenario.clock_delays;
  setup.slo = scenario.slo;
  setup.seed = scenario.seed;
  setup.max_tokens = scenario.workload.max_output_tokens;
  setup.refit_delay = scenario.measurement.refit_delay;
  setup.sample_noise = scenario.measurement.sample_noise;
  setup.telemetry = scenario.measurement.telemetry;
  setup.telemetry_period = scenario.measurement.telemetry_period;

  setup.service = config::make_service(scenario, recipe.recipe.classes);
  setup.emergency = recipe.recipe.emergency;
  setup.answers = recipe.recipe.answers;
  auto hint = systems::make_length_hint(recipe.recipe, setup.service.classes, scenario.seed);
  if (!hint) return std::unexpected(hint.error());
  setup.length_hint = std::move(*hint);
  auto learner = systems::make_length_learner(recipe.recipe);
  if (!learner) return std::unexpected(learner.error());
  setup.length_learner = std::move(*learner);
  auto policies = systems::make_dispatch_policies(recipe.recipe);
  if (!policies) return std::unexpected(policies.error());
  setup.policies = std::move(*policies);
  run.requests.assign(requests.begin(), requests.end());
  if (systems::needs_load_profile(recipe.recipe)) {
    LoadProfileRequest request = profile_request(recipe.recipe);
    request.progress = [](const std::string& line) { fmt::print(stderr, "load profile: {}\n", line); };
    const auto loads = scenario_profile(loaded, recipe.recipe.classes, data_dir, request);
    if (!loads) return std::unexpected(loads.error());
    run.loads = *loads;
  }
  // Even if no policy here uses a belief: a named file is checked.
  const auto believed = calibrate::clocks_believed(recipe.recipe.predictor, recipe.recipe.file);
  if (!believed) return std::unexpected(believed.error());
  std::vector<std::shared_ptr<const PoolMaker>> makers;
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    const auto& pool = scenario.pools[p];
    const auto engine = config::engine_of(scenario, pool);
    auto model = config::make_step_model(loaded.gpus[p], loaded.llm, pool.parallelism(), engine);
    if (!model) return std::unexpected(model.error());
    run.models.push_back(std::make_unique<engine::StepModel>(std::move(*model)));
    auto maker = std::make_shared<PoolMaker>();
    maker->recipe = recipe.recipe;
    maker->model = run.models.back().get();
    maker->admission = setup.policies.admission.policy;
    maker->loads = run.loads;
    maker->data_groups = pool.data_parallel;
    InstanceSpec spec = spec_of(loaded, p);
    spec.slo = recipe.recipe.answers.aims(spec.slo);
    spec.kv_capacity_tokens = maker->model->kv_blocks() * scenario.engine.block_size;
    if (systems::needs_sweet_clock(recipe.recipe)) calibrate::set_sweet_spot(spec, *maker->model, engine);
    if (systems::needs_latency(recipe.recipe, pool.role)) spec.beliefs.clocks = *believed;
    // Before anything is fitted: an instance that the policies refuse.
    if (auto ok = systems::check_instance(recipe.recipe, spec); !ok) return std::unexpected(ok.error());
    if (run.loads != nullptr) {
      run.load_profiles.push_back(std::make_unique<plan::TableProfile>(*run.loads, pool.tensor_parallel));
      spec.beliefs.load = run.load_profiles.back().get();
    }
    if (p < run.requests.size()) spec.beliefs.request = &run.requests[p];
    if (systems::needs_latency(recipe.recipe, pool.role)) {
      const auto clocks = systems::clocks_to_predict(recipe.recipe, spec);
      const calibrate::PredictorContext context{recipe.recipe.name, recipe.recipe.file, scenario.measurement};
      const auto latency =
          calibrate::believe_latency(recipe.recipe.predictor, context, *run.models.back(), engine, clocks);
      if (!latency) return std::unexpected(latency.error());
      run.beliefs.push_back(latency->model);
      spec.beliefs.latency = latency->model.get();
      maker->learner = latency->learner;
      if (systems::needs_power(recipe.recipe, pool.role)) {
        const auto power = calibrate::believe_power(recipe.recipe.predictor, context, *maker->model, engine, clocks);
        if (!power) return std::unexpected(power.error());
        run.powers.push_back(*power);
        spec.beliefs.power = power->get();
      }
    }
    maker->spec = std::make_shared<const InstanceSpec>(std::move(spec));
    makers.push_back(maker);
    // One instance of a pool without initial instances is made on trial, so that bad input shows now; its id is reused.
    for (std::int32_t i = 0; i < std::max(pool.count, 1); ++i) {
      auto instance = maker->make(InstanceId(static_cast<std::int32_t>(setup.instances.size())));
      if (!instance) return std::unexpected(instance.error());
      if (i < pool.count) setup.instances.push_back(std::move(*instance));
    }
  }
  run.facts.fairness = setup.fairness = fairness_of(loaded, run.models);
  if (auto ok = set_places(run.facts, setup, scenario, data_dir); !ok) return std::unexpected(ok.error());
  if (auto ok = set_scaling(run, loaded, recipe, data_dir, makers); !ok) return std::unexpected(ok.error());
  return run;
}

}  // namespace

Result<std::unique_ptr<workload::RequestSource>> open_source(const config::LoadedScenario& loaded,
                                                             const std::string& data_dir) {
  const auto workload = config::locate_workload(loaded.scenario, data_dir);
  if (!workload) return std::unexpected(workload.error());
  return config::open_workload(loaded, *workload, data_dir);
}

Result<PreparedRun> prepare(const config::LoadedScenario& loaded, const systems::LoadedRecipe& recipe,
                            const std::string& data_dir, std::span<const RequestLatency> requests,
                            std::unique_ptr<workload::RequestSource> source) {
  auto run = compose(loaded, recipe, data_dir, requests);
  if (!run) return std::unexpected(systems::of_recipe(run.error(), recipe.recipe));
  if (source == nullptr) {
    auto whole = open_source(loaded, data_dir);
    if (!whole) return std::unexpected(whole.error());
    source = std::move(*whole);
  }
  run->source = std::move(source);
  run->setup.source = run->source.get();
  if (auto ok = check_faults(run->setup, loaded); !ok) return std::unexpected(ok.error());
  return run;
}

}  // namespace wattle::experiment
