#include "experiment/live_fleet.h"

#include <fmt/core.h>

#include <algorithm>

#include "calibrate/service_time.h"
#include "calibrate/sweet_clock.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "experiment/engine_limits.h"
#include "experiment/load_profile.h"
#include "experiment/saturation.h"
#include "systems/compose.h"

namespace wattle::experiment {

Result<LiveFleet> LiveFleet::load(const LiveFleetOptions& options) {
  LiveFleet fleet;
  fleet.engine_ = options.engine;
  const auto home = config::project();
  const auto overrides = config::parse_overrides(options.overrides);
  if (!overrides) return std::unexpected(overrides.error());
  auto of_recipe = *overrides;
  if (!options.scenario.empty()) {
    const auto split = systems::split_overrides(*overrides);
    if (!split) return std::unexpected(split.error());
    of_recipe = split->recipe;
    auto scenario = config::load_scenario(options.scenario, split->scenario, home);
    if (!scenario) return std::unexpected(scenario.error());
    fleet.scenario_ = std::move(*scenario);
  }
  if (!options.recipe.empty()) {
    const auto recipe = systems::load_recipe(options.recipe, of_recipe, home);
    if (!recipe) return std::unexpected(recipe.error());
    fleet.recipe_ = recipe->recipe;
  } else if (!of_recipe.empty()) {
    return bad_input(of_recipe.front().where(), options.scenario.empty()
                                                    ? "there is neither a recipe nor a scenario whose key it could be"
                                                    : "is a recipe's key; name one with --recipe");
  }
  const auto gpu_file = home.find(config::Project::Kind::Gpu, options.gpu, "--gpu");
  if (!gpu_file) return std::unexpected(gpu_file.error());
  auto gpu = config::load_gpu(*gpu_file);
  if (!gpu) return std::unexpected(gpu.error());
  const auto llm_file = home.find(config::Project::Kind::Llm, options.llm, "--llm");
  if (!llm_file) return std::unexpected(llm_file.error());
  auto llm = config::load_llm(*llm_file);
  if (!llm) return std::unexpected(llm.error());
  fleet.gpu_ = std::move(*gpu);
  fleet.gpu_name_ = options.gpu;
  fleet.llm_ = std::move(*llm);
  return fleet;
}

Result<const engine::StepModel*> LiveFleet::model(std::int32_t tensor_parallel) {
  auto& model = models_[tensor_parallel];
  if (!model) {
    auto made = config::make_step_model(gpu_, llm_, tensor_parallel, engine_);
    if (!made) return std::unexpected(made.error());
    model = std::make_unique<engine::StepModel>(std::move(*made));
  }
  return model.get();
}

InstanceSpec LiveFleet::facts(Role role, std::int32_t tensor_parallel) const {
  InstanceSpec spec;
  spec.role = role;
  spec.gpu = gpu_;
  spec.llm = llm_;
  spec.tensor_parallel = tensor_parallel;
  spec.clocks = supported_clocks(gpu_);
  spec.clock_delay = engine::ClockDelays{}.whole();
  set_limits(spec, engine_);
  return spec;
}

Result<InstanceSpec> LiveFleet::describe(Role role, std::int32_t tensor_parallel, const Slo& slo) {
  auto spec = believe(role, tensor_parallel, slo);
  if (!spec) return std::unexpected(systems::of_recipe(spec.error(), recipe_));
  return spec;
}

Result<InstanceSpec> LiveFleet::believe(Role role, std::int32_t tensor_parallel, const Slo& slo) {
  if (auto ok = check_scenario(tensor_parallel); !ok) return std::unexpected(ok.error());
  InstanceSpec spec = facts(role, tensor_parallel);
  spec.slo = recipe_.answers.aims(slo);
  if (systems::needs_sweet_clock(recipe_)) {
    const auto truth = model(tensor_parallel);
    if (!truth) return std::unexpected(truth.error());
    calibrate::set_sweet_spot(spec, **truth, engine_);
  }
  if (systems::needs_latency(recipe_, role)) {
    const auto believed = calibrate::clocks_believed(recipe_.predictor, recipe_.file);
    if (!believed) return std::unexpected(believed.error());
    spec.beliefs.clocks = *believed;
  }
  if (auto ok = systems::check_admission(recipe_, spec); !ok) return std::unexpected(ok.error());
  if (systems::needs_latency(recipe_, role)) {
    auto& latency = latency_[tensor_parallel];
    if (!latency.model) {
      const auto truth = model(tensor_parallel);
      if (!truth) return std::unexpected(truth.error());
      auto believed = calibrate::believe_latency(recipe_.predictor, {recipe_.name, recipe_.file, {}}, **truth, engine_,
                                                 systems::clocks_to_predict(recipe_, spec));
      if (!believed) return std::unexpected(believed.error());
      latency = std::move(*believed);
    }
    spec.beliefs.latency = latency.model.get();
  }
  if (systems::needs_power(recipe_, role)) {
    auto& power = power_[tensor_parallel];
    if (!power) {
      const auto truth = model(tensor_parallel);
      if (!truth) return std::unexpected(truth.error());
      auto believed = calibrate::believe_power(recipe_.predictor, {recipe_.name, recipe_.file, {}}, **truth, engine_,
                                               systems::clocks_to_predict(recipe_, spec));
      if (!believed) return std::unexpected(believed.error());
      power = std::move(*believed);
    }
    spec.beliefs.power = power.get();
  }
  if (systems::needs_load_profile(recipe_)) {
    const auto profile = load_profile_of(tensor_parallel);
    if (!profile) return std::unexpected(profile.error());
    spec.beliefs.load = *profile;
  }
  if (systems::needs_request_latency(recipe_)) {
    const auto fit = request_latency(tensor_parallel);
    if (!fit) return std::unexpected(fit.error());
    spec.beliefs.request = *fit;
  }
  return spec;
}

Result<const LoadProfile*> LiveFleet::load_profile_of(std::int32_t tensor_parallel) {
  if (loads_ == nullptr) {
    auto loads = scenario_profile(*scenario_, recipe_.classes, config::data_dir(), profile_request(recipe_));
    if (!loads) return std::unexpected(loads.error());
    loads_ = std::move(*loads);
  }
  auto& profile = load_profiles_[tensor_parallel];
  if (!profile) profile = std::make_unique<plan::TableProfile>(*loads_, tensor_parallel);
  return profile.get();
}

predict::OnlineLatency* LiveFleet::learner(std::int32_t tensor_parallel) const {
  const auto found = latency_.find(tensor_parallel);
  return found == latency_.end() ? nullptr : found->second.learner;
}

Result<void> LiveFleet::check_scenario(std::int32_t tensor_parallel) const {
  if (systems::needs_load_profile(recipe_) && !scenario_) {
    return bad_input("--scenario", recipe_.name + " needs the load profile of a scenario's engines");
  }
  if (!systems::needs_request_latency(recipe_)) return {};
  const auto pool = fitted_on(tensor_parallel);
  return pool ? Result<void>() : std::unexpected(pool.error());
}

Result<std::size_t> LiveFleet::fitted_on(std::int32_t tensor_parallel) const {
  if (!scenario_) {
    return bad_input("--scenario", recipe_.name + " learns from a load of the kind it is to serve; name a scenario");
  }
  const auto& pools = scenario_->scenario.pools;
  const auto pool = std::ranges::find_if(pools, [&](const config::PoolOptions& p) {
    return p.role == Role::Colocated && p.tensor_parallel == tensor_parallel && p.gpu == gpu_name_;
  });
  if (pool == pools.end()) {
    return bad_input("--scenario " + scenario_->scenario.name,
                     fmt::format("has no colocated [[fleet]] of engines with {} {}", tensor_parallel, gpu_name_));
  }
  return static_cast<std::size_t>(pool - pools.begin());
}

Result<const RequestLatency*> LiveFleet::request_latency(std::int32_t tensor_parallel) {
  if (const auto found = requests_.find(tensor_parallel); found != requests_.end()) return &found->second;
  const auto pool = fitted_on(tensor_parallel);
  if (!pool) return std::unexpected(pool.error());
  const auto with = with_loads(*scenario_, false, config::data_dir());
  if (!with) return std::unexpected(with.error());
  auto fitted = fit_request_latency(*with, *pool, config::data_dir());
  if (!fitted) return std::unexpected(fitted.error());
  return &requests_.emplace(tensor_parallel, fitted->model).first->second;
}

std::int64_t LiveFleet::extrapolations() const {
  std::int64_t sum = 0;
  for (const auto& [tensor_parallel, belief] : latency_) sum += calibrate::extrapolations({&belief.model, 1});
  return sum;
}

Result<ServiceTime> LiveFleet::service_time(std::int32_t tensor_parallel) {
  const auto truth = model(tensor_parallel);
  if (!truth) return std::unexpected(truth.error());
  return calibrate::service_time(**truth, **truth, gpu_.clock_max);
}

Result<std::int64_t> LiveFleet::kv_capacity_tokens(std::int32_t tensor_parallel) {
  const auto truth = model(tensor_parallel);
  if (!truth) return std::unexpected(truth.error());
  return (*truth)->kv_blocks() * engine_.block_size;
}

}  // namespace wattle::experiment
