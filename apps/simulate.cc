#include "simulate.h"

#include <sys/resource.h>

#include <chrono>

#include "beliefs.h"
#include "compose.h"
#include "locate.h"
#include "profiles.h"
#include "retail_profile.h"

namespace wattle::apps {

namespace {

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
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
      facts.instances.push_back({InstanceId(static_cast<std::int32_t>(facts.instances.size())), pool.role, pool.gpu,
                                 scenario.llm, pool.tensor_parallel, loaded.gpus[p].clock_max});
    }
  }
  return facts;
}

Result<PreparedRun> prepare_run(const config::LoadedScenario& loaded, const config::LoadedRecipe& recipe,
                                const std::string& data_dir) {
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

  const auto length = make_length_belief(recipe.recipe);
  if (!length) return std::unexpected(length.error());
  setup.length_hint = make_length_hint(recipe.recipe, scenario.seed);
  const auto throttllem = make_throttllem(recipe.recipe, scenario.slo, scenario.engine.block_size, *length);
  if (!throttllem) return std::unexpected(throttllem.error());
  run.throttllem = *throttllem;
  const auto retail = make_retail(recipe.recipe, scenario.slo);
  if (!retail) return std::unexpected(retail.error());
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    const auto& pool = scenario.pools[p];
    auto& model = run.models[{pool.gpu, pool.tensor_parallel}];
    if (!model) {
      auto made = make_step_model(loaded.gpus[p], loaded.llm, pool.tensor_parallel, scenario.engine);
      if (!made) return std::unexpected(made.error());
      model = std::make_unique<engine::StepModel>(std::move(*made));
    }
    Beliefs beliefs;
    if (needs_latency(recipe.recipe, pool.role)) {
      const auto clocks =
          *throttllem ? clocks_on(recipe.recipe.decode_frequency, loaded.gpus[p]) : clocks_to_profile(recipe.recipe);
      const auto latency = believe_latency(recipe.recipe, *model, scenario.engine, clocks);
      if (!latency) return std::unexpected(latency.error());
      run.beliefs.push_back(*latency);
      beliefs.latency = latency->get();
    }
    std::optional<RetailFit> regression;
    if (*retail) {
      auto fitted = fit_retail(loaded, p, data_dir);
      if (!fitted) return std::unexpected(fitted.error());
      regression = *fitted;
    }
    for (std::int32_t i = 0; i < pool.count; ++i) {
      const InstanceId id = run.facts.instances[setup.instances.size()].id;
      if (auto ok = take_desk(*throttllem, recipe.recipe, id, pool.role, loaded.gpus[p], beliefs.latency); !ok) {
        return std::unexpected(ok.error());
      }
      if (regression) {
        (*retail)->add(id, regression->model, clocks_on(recipe.recipe.decode_frequency, loaded.gpus[p]));
      }
      auto policy =
          make_frequency_policy(recipe.recipe, pool.role, loaded.gpus[p], scenario.slo, *throttllem, id, *retail);
      if (!policy) return std::unexpected(policy.error());
      sim::InstanceSetup instance;
      instance.facts = run.facts.instances[setup.instances.size()];
      instance.weight = pool.weight;
      instance.model = model.get();
      instance.kv_bytes_per_token = loaded.llm.kv_bytes_per_token();
      instance.initial_clock = loaded.gpus[p].clock_max;
      instance.frequency = {std::move(*policy), frequency_options(recipe.recipe, pool.role).mode};
      instance.beliefs = beliefs;
      setup.instances.push_back(std::move(instance));
    }
  }

  std::vector<RoutedInstance> fleet;
  for (const auto& instance : setup.instances) fleet.push_back({instance.facts.role, scenario.slo, instance.beliefs});
  auto policies = make_dispatch_policies(recipe.recipe, fleet, *throttllem, *retail);
  if (!policies) return std::unexpected(policies.error());
  setup.policies = std::move(*policies);
  setup.policies.length = *length;

  run.intensity =
      std::make_unique<carbon::IntensitySeries>(carbon::IntensitySeries::constant(scenario.carbon_intensity));
  setup.intensity = run.intensity.get();
  const auto workload = locate_workload(scenario, data_dir);
  if (!workload) return std::unexpected(workload.error());
  auto source = workload::make_source(*workload, data_dir, base_dir(scenario), scenario.seed);
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

  auto result = sim::simulate(std::move(setup));
  result.summary.recipe = recipe.recipe.name;
  result.summary.sim.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.summary.sim.peak_rss_bytes = peak_rss_bytes();
  if (writer) {
    if (auto closed = writer->close(result.summary, result.curves); !closed) return std::unexpected(closed.error());
  }
  return std::move(result.summary);
}

}  // namespace wattle::apps
