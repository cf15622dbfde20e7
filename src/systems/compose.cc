#include "systems/compose.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "config/service.h"
#include "learn/length_trainer.h"
#include "model/clock_setting.h"
#include "predict/class_hint.h"
#include "systems/registry.h"

namespace wattle::systems {

namespace {

Making making(const Recipe& recipe, std::string section) {
  Making made{recipe, std::move(section), nullptr, nullptr, nullptr};
  return made;
}

const char* section_of(Role role) { return role == Role::Prefill ? "frequency.prefill" : "frequency.decode"; }

template <typename Policy>
Result<control::Slot<Policy>> fill(SlotKind slot, const PolicyChoice& choice, const Making& from) {
  const PolicyEntry& entry = entry_of(slot, choice);
  auto made = entry.make(options_in(entry, choice), from);
  if (!made) return std::unexpected(made.error());
  if (*made == nullptr) return control::Slot<Policy>{nullptr, choice.mode};
  auto fits = std::dynamic_pointer_cast<Policy>(*made);
  WATTLE_CHECK(fits != nullptr, "a policy is registered for the slots it fills");
  return control::Slot<Policy>{std::move(fits), choice.mode};
}

/// Calls visit(key, setting) for every clock that the options of a choice name.
template <typename Visit>
void each_clock(const PolicyEntry& entry, const PolicyChoice& choice, Visit&& visit) {
  for (const auto& option : entry.options) {
    const bool one = option.type == config::OptionType::Clock;
    if (!one && option.type != config::OptionType::Clocks) continue;
    const config::Value value = option.get(options_in(entry, choice));
    if (one) {
      visit(option.key, config::Codec<ClockSetting>::read(value, 1.0));
    } else {
      for (const auto& c : config::Codec<std::vector<ClockSetting>>::read(value, 1.0)) visit(option.key, c);
    }
  }
}

/// Why a clock is not valid on this instance; empty: it is.
std::string clock_problem(const ClockSetting& setting, const InstanceSpec& spec) {
  const GpuSpec& gpu = spec.gpu;
  const std::int32_t mhz = setting.on(spec).value();
  const std::int32_t low = gpu.clock_min.value();
  const std::int32_t high = gpu.clock_max.value();
  const std::int32_t step = gpu.clock_step.value();
  if (setting.kind() == ClockSetting::Kind::Sweet && mhz == 0) return "the energy-optimal clock is not known here";
  if (mhz < low || mhz > high) return fmt::format("{} MHz is outside the {} to {} MHz of {}", mhz, low, high, gpu.name);
  if (setting.kind() != ClockSetting::Kind::Fixed || has_clock(gpu, MegaHertz(mhz))) return "";
  const std::int32_t above = high - (high - mhz) / step * step;
  return fmt::format("{} MHz is no clock of {}, which steps by {}; nearest: {} and {}", mhz, gpu.name, step,
                     above - step, above);
}

}  // namespace

Result<std::shared_ptr<predict::LengthBelief>> make_length_belief(const Recipe& recipe) {
  const auto& o = recipe.length;
  if (o.source == "none") return nullptr;
  if (!(o.quantile > 0.0 && o.quantile < 1.0)) {
    return making(recipe, "length").refuse("quantile", "a share of requests: above 0, below 1");
  }
  using Source = predict::LengthBeliefOptions::Source;
  const bool fall_back = o.fall_back && o.source != "confusion";
  return std::make_shared<predict::LengthBelief>(
      predict::LengthBeliefOptions{o.source == "learned" ? Source::Learned : Source::Hint, o.quantile, fall_back});
}

Result<std::shared_ptr<predict::LengthLearner>> make_length_learner(const Recipe& recipe) {
  const auto& o = recipe.length;
  if (o.source != "trees") return nullptr;
  std::shared_ptr<const predict::LengthTrees> first;
  if (!o.trees.empty()) {
    const auto path = std::filesystem::path(recipe.file).parent_path() / o.trees;
    const auto bytes = read_file(path.string());
    if (!bytes) return std::unexpected(bytes.error());
    auto trees = predict::LengthTrees::from_xgboost(*bytes);
    if (!trees) return bad_input(path.string() + ": " + trees.error().where, trees.error().what);
    first = std::make_shared<const predict::LengthTrees>(std::move(*trees));
  }
  return std::make_shared<predict::LengthLearner>(learn::length_fit({.quantile = o.quantile}),
                                                  predict::LengthLearnerOptions{}, std::move(first));
}

Result<std::unique_ptr<predict::LengthHint>> make_length_hint(const Recipe& recipe, const Classifier& classes,
                                                              std::uint64_t seed) {
  const auto& o = recipe.length;
  if (const char* flaw = config::flaw_of(recipe.classes))
    return making(recipe, "classify").refuse("prompt_below", flaw);
  if (o.source == "confusion") {
    const auto sizes = static_cast<std::size_t>(classes.outputs());
    if (o.errors == "measured" && sizes != 3) {
      return making(recipe, "length")
          .refuse("errors", "were measured of three output sizes, not of " + std::to_string(sizes));
    }
    auto confusion = o.errors == "measured" ? predict::Confusion::as_measured(o.accuracy)
                                            : predict::Confusion::to_neighbours(sizes, o.accuracy);
    return std::make_unique<predict::ConfusedClasses>(classes.output_below(), std::move(confusion), seed);
  }
  if (o.source == "oracle") return std::make_unique<predict::LengthOracle>(o.error_p95, seed);
  if (o.source == "classes") return std::make_unique<predict::LengthClasses>(o.quantile, seed);
  return nullptr;
}

namespace {

Result<void> check_choice(const Recipe& recipe, SlotKind slot, const PolicyChoice& choice, const char* section,
                          const InstanceSpec& spec) {
  const PolicyEntry& entry = entry_of(slot, choice);
  Making from = making(recipe, section);
  from.spec = &spec;
  Result<void> result;
  each_clock(entry, choice, [&](const std::string& key, const ClockSetting& clock) {
    const std::string problem = result ? clock_problem(clock, spec) : std::string();
    if (!problem.empty()) result = from.refuse(key, problem);
  });
  if (!result) return result;
  return entry.admits ? entry.admits(options_in(entry, choice), from) : Result<void>();
}

/// Whether the clocks that the frequency policy may choose by latency were measured. Clocks that are not chosen by a
/// prediction, as for idle instances, are not checked.
Result<void> check_believed(const Recipe& recipe, const InstanceSpec& spec) {
  const PolicyChoice& choice = frequency_of(recipe, spec.role);
  const PolicyEntry& entry = entry_of(SlotKind::Frequency, choice);
  if (choice.mode == Mode::Off || !entry.needs.latency) return {};
  const MeasuredClocks& believed = spec.beliefs.clocks;
  for (const auto& option : entry.options) {
    if (option.type != config::OptionType::Clocks) continue;
    const config::Value listed = option.get(options_in(entry, choice));
    for (const ClockSetting& setting : config::Codec<std::vector<ClockSetting>>::read(listed, 1.0)) {
      const MegaHertz clock = setting.on(spec);
      if (believed.covers(clock) || clock == MegaHertz{0}) continue;  // 0: a sweet spot that is not known
      return making(recipe, section_of(spec.role))
          .refuse(option.key, fmt::format("{} MHz is outside the {} to {} MHz at which {} was measured", clock.value(),
                                          believed.lowest.value(), believed.highest.value(), recipe.predictor.file));
    }
  }
  return {};
}

}  // namespace

Result<void> check_admission(const Recipe& recipe, const InstanceSpec& spec) {
  if (auto ok = check_believed(recipe, spec); !ok) return ok;
  if (recipe.admission.mode == Mode::Off) return {};
  return check_choice(recipe, SlotKind::Admission, recipe.admission, "admission", spec);
}

Result<void> check_instance(const Recipe& recipe, const InstanceSpec& spec) {
  if (auto ok = check_admission(recipe, spec); !ok) return ok;
  return check_choice(recipe, SlotKind::Frequency, frequency_of(recipe, spec.role), section_of(spec.role), spec);
}

Result<void> check_recipe_on(const LoadedRecipe& recipe, const config::LoadedScenario& scenario) {
  for (std::size_t i = 0; i < scenario.gpus.size(); ++i) {
    InstanceSpec spec;
    spec.role = scenario.scenario.pools[i].role;
    spec.gpu = scenario.gpus[i];
    spec.sweet_clock = spec.gpu.clock_max;  // whatever it is, the GPU has it
    const PolicyChoice& choice = frequency_of(recipe.recipe, spec.role);
    Result<void> result;
    each_clock(entry_of(SlotKind::Frequency, choice), choice, [&](const std::string& key, const ClockSetting& clock) {
      const std::string problem = result ? clock_problem(clock, spec) : std::string();
      if (!problem.empty()) result = bad_input(place_of(recipe.origins, section_of(spec.role), key), problem);
    });
    if (!result) return result;
  }
  return {};
}

Result<control::DispatchPolicies> make_dispatch_policies(const Recipe& recipe) {
  control::DispatchPolicies made;
  auto length = make_length_belief(recipe);
  if (!length) return std::unexpected(length.error());
  made.length = std::move(*length);
  const auto put = [&]<typename Policy>(control::Slot<Policy>& slot, SlotKind kind, const PolicyChoice& choice,
                                        const char* section) -> Result<void> {
    Making from = making(recipe, section);
    from.length = made.length;
    auto filled = fill<Policy>(kind, choice, from);
    if (!filled) return std::unexpected(filled.error());
    slot = std::move(*filled);
    return {};
  };
  auto ok = put(made.admission, SlotKind::Admission, recipe.admission, "admission");
  if (ok) ok = put(made.queueing, SlotKind::Queueing, recipe.queueing, "queueing");
  if (ok) ok = put(made.route_prefill, SlotKind::Routing, recipe.route_prefill, "routing.prefill");
  if (ok) ok = put(made.route_decode, SlotKind::Routing, recipe.route_decode, "routing.decode");
  if (!ok) return std::unexpected(ok.error());
  return made;
}

Result<control::Slot<policy::FrequencyPolicy>> make_clock_policy(
    const Recipe& recipe, const InstanceSpec& spec, const std::shared_ptr<policy::AdmissionPolicy>& admission,
    const std::shared_ptr<const plan::LoadTable>& loads) {
  if (auto ok = check_instance(recipe, spec); !ok) return std::unexpected(ok.error());
  Making from = making(recipe, section_of(spec.role));
  from.spec = &spec;
  from.admission = admission;
  from.loads = loads;
  return fill<policy::FrequencyPolicy>(SlotKind::Frequency, frequency_of(recipe, spec.role), from);
}

Result<std::shared_ptr<policy::ScalingPolicy>> make_scaling_policy(const Recipe& recipe, ScalingInputs inputs) {
  Making from = making(recipe, "scaling");
  from.loads = inputs.loads;
  from.scaling = std::move(inputs);
  auto filled = fill<policy::ScalingPolicy>(SlotKind::Scaling, recipe.scaling, from);
  if (!filled) return std::unexpected(filled.error());
  return std::move(filled->policy);
}

// --- what has to be there ---

const PolicyChoice& frequency_of(const Recipe& recipe, Role role) {
  return role == Role::Prefill ? recipe.prefill_frequency : recipe.decode_frequency;
}

bool clock_shares_admission(const Recipe& recipe, Role role) {
  return entry_of(SlotKind::Frequency, frequency_of(recipe, role)).host == Host::Admission;
}

namespace {

/// What admission needs, unless it is off.
Needs needs_of_admission(const Recipe& recipe) {
  if (recipe.admission.mode == Mode::Off) return {};
  return entry_of(SlotKind::Admission, recipe.admission).needs;
}

/// The router whose choice among instances of this role depends on their steps; null: none, or it is off. Prompts alone
/// are routed by the dispatcher's counts.
const PolicyChoice* router_by_steps(const Recipe& recipe, Role role) {
  if (role == Role::Prefill) return nullptr;
  const PolicyChoice& route = role == Role::Decode ? recipe.route_decode : recipe.route_prefill;
  return route.mode == Mode::Off ? nullptr : &route;
}

}  // namespace

bool needs_latency(const Recipe& recipe, Role role) {
  if (needs_of_admission(recipe).latency) return true;
  const PolicyChoice* route = router_by_steps(recipe, role);
  if (route != nullptr && entry_of(SlotKind::Routing, *route).needs.latency) return true;
  const PolicyChoice& choice = frequency_of(recipe, role);
  return choice.mode != Mode::Off && entry_of(SlotKind::Frequency, choice).needs.latency;
}

bool needs_power(const Recipe& recipe, Role role) {
  if (const PolicyChoice* route = router_by_steps(recipe, role)) {
    const PolicyEntry& router = entry_of(SlotKind::Routing, *route);
    if (router.weighs_power && router.weighs_power(options_in(router, *route), role)) return true;
  }
  const PolicyChoice& choice = frequency_of(recipe, role);
  const PolicyEntry& entry = entry_of(SlotKind::Frequency, choice);
  return choice.mode != Mode::Off && entry.weighs_power && entry.weighs_power(options_in(entry, choice), role);
}

bool needs_request_latency(const Recipe& recipe) { return needs_of_admission(recipe).request_latency; }

bool needs_step_reports(const Recipe& recipe) { return needs_of_admission(recipe).step_reports; }

bool needs_load_profile(const Recipe& recipe) {
  const auto needs = [](SlotKind slot, const PolicyChoice& choice) {
    return choice.mode != Mode::Off && entry_of(slot, choice).needs.load_profile;
  };
  return needs(SlotKind::Frequency, recipe.decode_frequency) || needs(SlotKind::Scaling, recipe.scaling) ||
         needs(SlotKind::Routing, recipe.route_prefill);
}

bool needs_max_loads(const Recipe& recipe) {
  return recipe.scales() && !needs_load_profile(recipe) && !needs_sites(recipe);
}

bool needs_sites(const Recipe& recipe) {
  return recipe.scaling.mode != Mode::Off && entry_of(SlotKind::Scaling, recipe.scaling).needs.sites;
}

bool needs_sweet_clock(const Recipe& recipe) {
  bool sweet = false;
  for (const PolicyChoice* choice : {&recipe.prefill_frequency, &recipe.decode_frequency}) {
    each_clock(entry_of(SlotKind::Frequency, *choice), *choice,
               [&](const std::string&, const ClockSetting& clock) { sweet = sweet || clock.needs_sweet(); });
  }
  return sweet;
}

namespace {

std::vector<MegaHertz> each_once(std::vector<MegaHertz> clocks) {
  std::ranges::sort(clocks);
  const auto repeated = std::ranges::unique(clocks);
  clocks.erase(repeated.begin(), repeated.end());
  return clocks;
}

}  // namespace

std::vector<MegaHertz> clocks_to_predict(const Recipe& recipe, const InstanceSpec& spec) {
  std::vector<MegaHertz> clocks;
  for (const PolicyChoice* choice : {&recipe.prefill_frequency, &recipe.decode_frequency}) {
    const PolicyEntry& entry = entry_of(SlotKind::Frequency, *choice);
    if (!entry.clocks) continue;
    const auto more = entry.clocks(options_in(entry, *choice), spec);
    clocks.insert(clocks.end(), more.begin(), more.end());
  }
  if (!clocks.empty()) return each_once(std::move(clocks));
  // A policy that admits by forecast needs predictions at the highest clock even if clocks are fixed, a router at that
  // one.
  if (needs_of_admission(recipe).latency) return spec.clocks;
  const PolicyChoice* route = router_by_steps(recipe, spec.role);
  if (route == nullptr || !entry_of(SlotKind::Routing, *route).needs.latency) return {};
  const PolicyChoice& decodes = recipe.decode_frequency;
  each_clock(entry_of(SlotKind::Frequency, decodes), decodes,
             [&](const std::string&, const ClockSetting& clock) { clocks.push_back(clock.on(spec)); });
  return clocks.empty() ? spec.clocks : each_once(std::move(clocks));
}

Span overrun_slack(const Recipe& recipe, Role role) {
  const PolicyChoice& choice = frequency_of(recipe, role);
  const PolicyEntry& entry = entry_of(SlotKind::Frequency, choice);
  return entry.overrun_slack ? entry.overrun_slack(options_in(entry, choice)) : Span::max();
}

}  // namespace wattle::systems
