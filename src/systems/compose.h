#pragma once
// Names become objects here, and nowhere else: one explicit list per kind of policy (compose.cc).
#include <memory>
#include <vector>

#include "base/error.h"
#include "config/recipe.h"
#include "control/dispatcher.h"
#include "model/hardware.h"
#include "model/instance.h"
#include "policy/frequency/frequency.h"
#include "policy/scaling/scaling.h"
#include "predict/length_belief.h"
#include "predict/length_hint.h"

namespace wattle::systems {

/// What the recipe believes of output lengths; null for `none`. Errors: a quantile outside (0, 1).
[[nodiscard]] Result<std::shared_ptr<predict::LengthBelief>> make_length_belief(const config::Recipe& recipe);
/// What a driver that knows true lengths feeds it; null where nothing is fed.
[[nodiscard]] std::unique_ptr<predict::LengthHint> make_length_hint(const config::Recipe& recipe, std::uint64_t seed);

/// May such an instance be part of the fleet? Errors: an objective that admission needs and the spec lacks; a role it
/// does not know; clocks that do not ascend or that the GPU cannot lock.
[[nodiscard]] Result<void> check_instance(const config::Recipe& recipe, const InstanceSpec& spec);

/// The clocks to choose from: the recipe's own, or every step of the GPU.
[[nodiscard]] std::vector<MegaHertz> clocks_on(const config::FrequencyOptions& options, const GpuSpec& gpu);

/// Admission, queueing and routing of a recipe, in their modes, and what is believed of lengths. Policies learn of the
/// instances when those join. Errors: an unknown name (the known ones are listed); eco-route for the prefill leg.
[[nodiscard]] Result<control::DispatchPolicies> make_dispatch_policies(const config::Recipe& recipe);

/// The options that apply to an instance of this role; their `mode` goes to the Throttle.
[[nodiscard]] const config::FrequencyOptions& frequency_options(const config::Recipe& recipe, Role role);

/// What chooses the clock of such an instance: a fresh policy, or `admission` itself where that fills both slots.
/// Errors: as check_instance; an unknown name; a clock outside the GPU's range; eco-freq without clocks or without the
/// objective its role needs (prefill: slo.ttft, decode: slo.itl, colocated: both), or with a margin outside [0, 1).
[[nodiscard]] Result<control::Slot<policy::FrequencyPolicy>> make_clock_policy(
    const config::Recipe& recipe, const InstanceSpec& spec,
    const std::shared_ptr<policy::AdmissionPolicy>& admission = nullptr);

/// Does the policy that admits choose the clocks, too? Then both are decided where requests are admitted.
[[nodiscard]] bool clock_shares_admission(const config::Recipe& recipe, Role role);

/// The recipe's scaling policy over these shapes; null when it has none. Errors: shapes whose GPUs and maximum loads do
/// not both ascend.
[[nodiscard]] Result<std::shared_ptr<policy::ScalingPolicy>> make_scaling_policy(const config::Recipe& recipe,
                                                                                 std::vector<policy::Shape> shapes);

/// Does a policy of the fleet look at iterations, so that every instance has to report them?
[[nodiscard]] bool needs_step_reports(const config::Recipe& recipe);
/// Do instances need Beliefs::request?
[[nodiscard]] bool needs_request_latency(const config::Recipe& recipe);
/// The clocks that predictors are made for.
[[nodiscard]] std::vector<MegaHertz> clocks_to_predict(const config::Recipe& recipe, const GpuSpec& gpu);

/// Does an instance of this role need Beliefs::latency (calibrate/beliefs.h)?
[[nodiscard]] bool needs_latency(const config::Recipe& recipe, Role role);

/// The throttle's slack for an instance of this role; Span::max(): no watchdog.
[[nodiscard]] Span overrun_slack(const config::Recipe& recipe, Role role);

}  // namespace wattle::systems
