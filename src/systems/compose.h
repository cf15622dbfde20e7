#pragma once
// A recipe becomes policies over a fleet that may grow. Names become objects in registry.h's list, and nowhere else.
#include <memory>
#include <vector>

#include "base/error.h"
#include "config/load.h"
#include "control/fleet_loop.h"
#include "model/classifier.h"
#include "model/instance.h"
#include "plan/load_table.h"
#include "policy/frequency/frequency.h"
#include "policy/scaling/scaling.h"
#include "predict/length_belief.h"
#include "predict/length_hint.h"
#include "predict/length_learner.h"
#include "systems/recipe.h"
#include "systems/scaling_inputs.h"

namespace wattle::systems {

/// What the recipe believes of output lengths; null for `none`. Errors: a quantile outside (0, 1).
[[nodiscard]] Result<std::shared_ptr<predict::LengthBelief>> make_length_belief(const Recipe& recipe);
/// Trees that learn on from a driver's own traffic and hint at lengths; null for other sources. Errors: a file of trees
/// that is missing or none.
[[nodiscard]] Result<std::shared_ptr<predict::LengthLearner>> make_length_learner(const Recipe& recipe);
/// What a driver that knows true lengths feeds it; null where nothing is fed. `classes`: what requests are sorted by.
/// Errors: measured errors of other than three output classes.
[[nodiscard]] Result<std::unique_ptr<predict::LengthHint>> make_length_hint(const Recipe& recipe,
                                                                            const Classifier& classes,
                                                                            std::uint64_t seed);

/// May such an instance be part of the fleet? Errors: an objective that a policy needs and the spec lacks; a role it
/// does not know; a clock that the GPU cannot lock, clocks that do not ascend, a sweet spot that nobody knows,
/// clocks to choose from by latency outside of Beliefs::clocks.
[[nodiscard]] Result<void> check_instance(const Recipe& recipe, const InstanceSpec& spec);
/// The part of it that matters where requests are admitted and clocks are decided elsewhere: admission and routing ask
/// about the clocks that are chosen from.
[[nodiscard]] Result<void> check_admission(const Recipe& recipe, const InstanceSpec& spec);

/// Do the recipe's clocks suit the scenario's GPUs, step by step? Errors: with the key's place.
[[nodiscard]] Result<void> check_recipe_on(const LoadedRecipe& recipe, const config::LoadedScenario& scenario);

/// Admission, queueing and routing of a recipe, in their modes, and what is believed of lengths. Policies learn of the
/// instances when those join. Errors: what a policy cannot be made of.
[[nodiscard]] Result<control::DispatchPolicies> make_dispatch_policies(const Recipe& recipe);

/// What chooses the clock of such an instance: a fresh policy, or `admission` itself where that fills both slots.
/// Errors: as check_instance; a policy that needs the fleet's admission and is not it.
[[nodiscard]] Result<control::Slot<policy::FrequencyPolicy>> make_clock_policy(
    const Recipe& recipe, const InstanceSpec& spec, const std::shared_ptr<policy::AdmissionPolicy>& admission = nullptr,
    const std::shared_ptr<const plan::LoadTable>& loads = nullptr);

/// The recipe's scaling policy; null when it has none. Errors: shapes whose GPUs and maximum loads do not both ascend.
[[nodiscard]] Result<std::shared_ptr<policy::ScalingPolicy>> make_scaling_policy(const Recipe& recipe,
                                                                                 ScalingInputs inputs);

/// The choice that applies to an instance of this role.
[[nodiscard]] const PolicyChoice& frequency_of(const Recipe& recipe, Role role);
/// Does the policy that admits choose the clocks, too? Then both are decided where requests are admitted.
[[nodiscard]] bool clock_shares_admission(const Recipe& recipe, Role role);
/// Does an instance of this role need Beliefs::latency (calibrate/beliefs.h)?
[[nodiscard]] bool needs_latency(const Recipe& recipe, Role role);
/// Likewise Beliefs::power?
[[nodiscard]] bool needs_power(const Recipe& recipe, Role role);
/// Does some policy need the profile of the fleet's engines by load (Beliefs::load)?
[[nodiscard]] bool needs_load_profile(const Recipe& recipe);
/// Does the scaling policy go by the most an engine of each shape carries? One that plans by a load profile or over
/// sites does not.
[[nodiscard]] bool needs_max_loads(const Recipe& recipe);
/// Does the scaling policy plan over sites?
[[nodiscard]] bool needs_sites(const Recipe& recipe);
/// Do instances need Beliefs::request?
[[nodiscard]] bool needs_request_latency(const Recipe& recipe);
/// Does a policy of the fleet look at iterations, so that every instance has to report them?
[[nodiscard]] bool needs_step_reports(const Recipe& recipe);
/// Does some clock of the recipe depend on InstanceSpec::sweet_clock?
[[nodiscard]] bool needs_sweet_clock(const Recipe& recipe);
/// The clocks that such an instance's predictor is made for, ascending, each once.
[[nodiscard]] std::vector<MegaHertz> clocks_to_predict(const Recipe& recipe, const InstanceSpec& spec);
/// The throttle's slack for an instance of this role; Span::max(): no watchdog.
[[nodiscard]] Span overrun_slack(const Recipe& recipe, Role role);

}  // namespace wattle::systems
