#include "experiment/simulate.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/check.h"
#include "calibrate/beliefs.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "experiment/retail_profile.h"
#include "experiment/saturation.h"
#include "systems/compose.h"

namespace wattle::experiment {

namespace {

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

journal::InstanceFacts facts_of(const config::LoadedScenario& loaded, std::size_t p, InstanceId id) {
  const auto& pool = loaded.scenario.pools[p];
  return {id, pool.role, pool.gpu, loaded.scenario.llm, pool.tensor_parallel, loaded.gpus[p].clock_max};
}

}  // namespace

journal::RunFacts run_facts(const config::LoadedScenario& loaded, const std::string& recipe,
                            const std::string& driver) {
  const auto& scenario = loaded.scenario;
  journal::RunFacts facts;
  facts.scenario = scenario.name;
  facts.recipe = recipe;
  facts.driver = driver;
  facts.seed = scenario.seed;
  facts.slo = scenario.slo;
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    const auto& pool = scenario.pools[p];
    for (std::int32_t i = 0; i < pool.count; ++i) {
      facts.instances.push_back(facts_of(loaded, p, InstanceId(static_cast<std::int32_t>(facts.instances.size()))));
    }
  }
  return facts;
}

namespace {

/// Makes instances of one pool, now or while the run goes on.
struct PoolMaker {
  config::Recipe recipe;
  config::PoolOptions pool;
  GpuSpec gpu;
  Slo slo;
  journal::InstanceFacts facts;
  double kv_bytes_per_token = 0.0;
  const engine::StepModel* model = nullptr;
  Beliefs beliefs;
  predict::OnlineLatency* learner = nullptr;
  std::shared_ptr<policy::ThrottllemFleet> throttllem;
  std::shared_ptr<policy::RetailFleet> retail;
  std::optional<RetailFit> regression;

  [[nodiscard]] Result<sim::InstanceSetup> make(InstanceId id) const {
    if (auto ok = systems::take_desk(throttllem, recipe, id, pool.role, gpu, beliefs.latency); !ok) {
      return std::unexpected(ok.error());
    }
    if (regression) {
      if (auto ok = systems::take_desk(retail, recipe, id, pool.role, gpu, regression->model); !ok) {
        return std::unexpected(ok.error());
      }
    }
    auto policy = systems::make_frequency_policy(recipe, pool.role, gpu, slo, throttllem, id, retail);
    if (!policy) return std::unexpected(policy.error());
    sim::InstanceSetup instance;
    instance.facts = facts;
    instance.facts.id = id;
    instance.weight = pool.weight;
    instance.model = model;
    instance.kv_bytes_per_token = kv_bytes_per_token;
    instance.initial_clock = gpu.clock_max;
    instance.frequency = {std::move(*policy), systems::frequency_options(recipe, pool.role).mode};
    instance.beliefs = beliefs;
    instance.learner = learner;
    instance.overrun_slack = systems::overrun_slack(recipe, pool.role);
    return instance;
  }
};

/// Every pool a shape that may be started; nothing for a recipe that does not scale.
Result<sim::ScalingSetup> make_scaling(const config::LoadedScenario& loaded, const config::LoadedRecipe& recipe,
                                       const std::vector<std::shared_ptr<const PoolMaker>>& pools) {
  sim::ScalingSetup made;
  const auto& scaling = recipe.recipe.scaling;
  if (scaling.policy == "none" || scaling.mode == Mode::Off) return made;
  const auto refuse = [&](const std::string& problem) {
    return bad_input(recipe.origins.of("scaling.policy"), problem);
  };
  const auto& route = recipe.recipe.route_decode;
  if (route.policy == "eco-route" && route.mode != Mode::Off) {
    return refuse("eco-route knows the instances it began with only; choose another routing, or no scaling");
  }
  const auto& spawn = loaded.scenario.spawn;
  std::vector<policy::Shape> shapes;
  for (std::size_t p = 0; p < pools.size(); ++p) {
    const auto& pool = loaded.scenario.pools[p];
    if (pool.role != Role::Colocated) return refuse("only colocated instances are scaled; the scenario has others");
    shapes.push_back({pool.tensor_parallel, pool.max_load_per_s, spawn.load + spawn.warm});
    const auto make = [maker = pools[p]](InstanceId id) {
      auto instance = maker->make(id);
      WATTLE_CHECK(instance.has_value(), "what was made once can be made again");
      return std::move(*instance);
    };
    made.shapes.push_back({pool.tensor_parallel, pool.max_load_per_s, make});
    made.shape_of.insert(made.shape_of.end(), static_cast<std::size_t>(pool.count), p);
  }
  auto policy = systems::make_scaling_policy(recipe.recipe, std::move(shapes));
  if (!policy) return std::unexpected(policy.error());
  made.policy = {std::move(*policy), scaling.mode};
  made.period = scaling.period;
  made.load_time = spawn.load;
  made.warm_time = spawn.warm;
  return made;
}

}  // namespace

Result<PreparedRun> prepare_run(const config::LoadedScenario& scenario_as_stated, const config::LoadedRecipe& recipe,
                                const std::string& data_dir) {
  const bool scales = recipe.recipe.scaling.policy != "none" && recipe.recipe.scaling.mode != Mode::Off;
  const auto with = with_loads(scenario_as_stated, scales, data_dir);
  if (!with) return std::unexpected(with.error());
  const config::LoadedScenario& loaded = *with;
  const auto& scenario = loaded.scenario;
  PreparedRun run;
  run.facts = run_facts(loaded, recipe.recipe.name, "sim");
  auto& setup = run.setup;
  setup.engine = scenario.engine;
  setup.link = scenario.link;
  setup.clock_delays = scenario.clock_delays;
  setup.slo = scenario.slo;
  setup.seed = scenario.seed;
  setup.max_tokens = scenario.workload.max_output_tokens;
  setup.gpu_price = scenario.gpu_price;
  setup.refit_delay = recipe.recipe.predictor.refit_delay;
  setup.sample_noise = recipe.recipe.predictor.sample_noise;

  const auto length = systems::make_length_belief(recipe.recipe);
  if (!length) return std::unexpected(length.error());
  setup.length_hint = systems::make_length_hint(recipe.recipe, scenario.seed);
  const auto throttllem = systems::make_throttllem(recipe.recipe, scenario.slo, scenario.engine.block_size, *length);
  if (!throttllem) return std::unexpected(throttllem.error());
  run.throttllem = *throttllem;
  const auto retail = systems::make_retail(recipe.recipe, scenario.slo);
  if (!retail) return std::unexpected(retail.error());
  std::vector<std::shared_ptr<const PoolMaker>> makers;
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    const auto& pool = scenario.pools[p];
    const auto engine = config::engine_of(scenario, pool);
    auto model = config::make_step_model(loaded.gpus[p], loaded.llm, pool.tensor_parallel, engine);
    if (!model) return std::unexpected(model.error());
    run.models.push_back(std::make_unique<engine::StepModel>(std::move(*model)));
    auto maker = std::make_shared<PoolMaker>();
    maker->recipe = recipe.recipe;
    maker->pool = pool;
    maker->gpu = loaded.gpus[p];
    maker->slo = scenario.slo;
    maker->facts = facts_of(loaded, p, kNoInstance);
    maker->kv_bytes_per_token = loaded.llm.kv_bytes_per_token();
    maker->model = run.models.back().get();
    maker->throttllem = *throttllem;
    if (systems::needs_latency(recipe.recipe, pool.role)) {
      const auto clocks = *throttllem ? systems::clocks_on(recipe.recipe.decode_frequency, loaded.gpus[p])
                                      : calibrate::clocks_to_profile(recipe.recipe);
      const auto latency = calibrate::believe_latency(recipe.recipe, *run.models.back(), engine, clocks);
      if (!latency) return std::unexpected(latency.error());
      run.beliefs.push_back(latency->model);
      maker->beliefs.latency = latency->model.get();
      maker->learner = latency->learner;
    }
    maker->retail = *retail;
    if (*retail) {
      auto fitted = fit_retail(loaded, p, data_dir);
      if (!fitted) return std::unexpected(fitted.error());
      maker->regression = *fitted;
    }
    makers.push_back(maker);
    // Of a pool that may only come later one is made on trial, so that bad input shows now; the next one takes its id.
    for (std::int32_t i = 0; i < std::max(pool.count, 1); ++i) {
      auto instance = maker->make(InstanceId(static_cast<std::int32_t>(setup.instances.size())));
      if (!instance) return std::unexpected(instance.error());
      if (i < pool.count) setup.instances.push_back(std::move(*instance));
    }
  }
  auto scaling = make_scaling(loaded, recipe, makers);
  if (!scaling) return std::unexpected(scaling.error());
  setup.scaling = std::move(*scaling);

  std::vector<systems::RoutedInstance> fleet;
  for (const auto& instance : setup.instances) fleet.push_back({instance.facts.role, scenario.slo, instance.beliefs});
  auto policies = systems::make_dispatch_policies(recipe.recipe, fleet, *throttllem, *retail);
  if (!policies) return std::unexpected(policies.error());
  setup.policies = std::move(*policies);
  setup.policies.length = *length;

  run.intensity =
      std::make_unique<carbon::IntensitySeries>(carbon::IntensitySeries::constant(scenario.carbon_intensity));
  setup.intensity = run.intensity.get();
  const auto workload = config::locate_workload(scenario, data_dir);
  if (!workload) return std::unexpected(workload.error());
  auto source = workload::make_source(*workload, data_dir, config::base_dir(scenario), scenario.seed);
  if (!source) return std::unexpected(source.error());
  run.source = std::move(*source);
  setup.source = run.source.get();
  return run;
}

Result<journal::RunSummary> run_simulation(const config::LoadedScenario& loaded, const config::LoadedRecipe& recipe,
                                           const SimulateOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  auto run = prepare_run(loaded, recipe, options.data_dir);
  if (!run) return std::unexpected(run.error());
  auto& setup = run->setup;
  setup.fast_forward = options.fast_forward;
  setup.check_invariants = options.check_invariants;

  std::unique_ptr<journal::RunWriter> writer;
  if (!options.out_dir.empty()) {
    auto opened = journal::RunWriter::open(options.out_dir, run->facts);
    if (!opened) return std::unexpected(opened.error());
    writer = std::move(*opened);
    setup.sink = writer.get();
    setup.sample_period = loaded.scenario.sample_period;
    setup.stretches = true;
  }

  for (const auto& model : run->models) model->forget_asked();  // fitting beliefs asked about every shape
  auto result = sim::simulate(std::move(setup));
  for (const auto& model : run->models) {
    for (std::string& sentence : model->extrapolated()) {
      auto& all = result.summary.extrapolated;
      if (std::ranges::find(all, sentence) == all.end()) all.push_back(std::move(sentence));
    }
  }
  result.summary.recipe = recipe.recipe.name;
  result.summary.extrapolations = calibrate::extrapolations(run->beliefs);
  result.summary.sim.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.summary.sim.peak_rss_bytes = peak_rss_bytes();
  if (writer) {
    if (auto closed = writer->close(result.summary, result.curves); !closed) return std::unexpected(closed.error());
  }
  return std::move(result.summary);
}

}  // namespace wattle::experiment
