#pragma once
// Names become objects here, and nowhere else: one explicit list per kind of policy (compose.cc).
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "config/recipe.h"
#include "control/dispatcher.h"
#include "model/beliefs.h"
#include "model/hardware.h"
#include "model/instance.h"
#include "model/request.h"
#include "policy/frequency/frequency.h"
#include "policy/retail/retail.h"
#include "policy/scaling/scaling.h"
#include "policy/throttllem/throttllem.h"
#include "predict/length_belief.h"
#include "predict/length_hint.h"

namespace wattle::systems {

/// What a routing policy may ask about the instance whose id is the position in the fleet.
struct RoutedInstance {
  Role role = Role::Colocated;
  Slo slo;
  Beliefs beliefs;  ///< outlive the policies
};

/// What the recipe believes of output lengths; null for `none`. Errors: a quantile outside (0, 1).
[[nodiscard]] Result<std::shared_ptr<predict::LengthBelief>> make_length_belief(const config::Recipe& recipe);
/// What a driver that knows true lengths feeds it; null where nothing is fed.
[[nodiscard]] std::unique_ptr<predict::LengthHint> make_length_hint(const config::Recipe& recipe, std::uint64_t seed);

/// What throttLL'eM's admission and clocks share; null for recipes whose admission is another. Errors: neither slo.tbt
/// nor slo.e2e stated.
[[nodiscard]] Result<std::shared_ptr<policy::ThrottllemFleet>> make_throttllem(
    const config::Recipe& recipe, const Slo& slo, std::int32_t block_size,
    std::shared_ptr<const LengthModel> length = nullptr);
/// Gives an instance its desk there; nothing to do without a fleet. Errors: a role other than colocated; clocks that do
/// not ascend or that the GPU cannot lock.
[[nodiscard]] Result<void> take_desk(const std::shared_ptr<policy::ThrottllemFleet>& fleet,
                                     const config::Recipe& recipe, InstanceId id, Role role, const GpuSpec& gpu,
                                     const LatencyModel* latency);

/// What ReTail's admission and clocks share; null for recipes whose admission is another. Errors: no slo.e2e.
[[nodiscard]] Result<std::shared_ptr<policy::RetailFleet>> make_retail(const config::Recipe& recipe, const Slo& slo);

/// Gives an instance its desk there; nothing to do without a fleet. Errors: as of throttLL'eM's.
[[nodiscard]] Result<void> take_desk(const std::shared_ptr<policy::RetailFleet>& fleet, const config::Recipe& recipe,
                                     InstanceId id, Role role, const GpuSpec& gpu, const policy::RetailModel& model);

/// The clocks to choose from: the recipe's own, or every step of the GPU.
[[nodiscard]] std::vector<MegaHertz> clocks_on(const config::FrequencyOptions& options, const GpuSpec& gpu);

/// Admission, queueing and routing of a recipe, in their modes. Errors: an unknown name (the known ones are listed);
/// eco-route for the prefill leg or without a fleet to ask about; throttllem without its fleet.
[[nodiscard]] Result<control::DispatchPolicies> make_dispatch_policies(
    const config::Recipe& recipe, std::span<const RoutedInstance> fleet = {},
    std::shared_ptr<policy::ThrottllemFleet> throttllem = nullptr,
    std::shared_ptr<policy::RetailFleet> retail = nullptr);

/// The options that apply to an instance of this role; their `mode` goes to the Throttle.
[[nodiscard]] const config::FrequencyOptions& frequency_options(const config::Recipe& recipe, Role role);

/// A fresh policy for one instance of this role on this GPU. Errors: an unknown name; a clock outside the GPU's range;
/// eco-freq without clocks or without the objective its role needs (prefill: slo.ttft, decode: slo.itl, colocated:
/// both), or with a margin outside [0, 1); throttllem without a desk.
[[nodiscard]] Result<std::unique_ptr<policy::FrequencyPolicy>> make_frequency_policy(
    const config::Recipe& recipe, Role role, const GpuSpec& gpu, const Slo& slo,
    std::shared_ptr<policy::ThrottllemFleet> throttllem = nullptr, InstanceId id = kNoInstance,
    std::shared_ptr<policy::RetailFleet> retail = nullptr);

/// Does its clock share a projection or a queue with admission? Then both are decided where requests are admitted.
[[nodiscard]] bool clock_shares_admission(const config::Recipe& recipe, Role role);

/// The recipe's scaling policy over these shapes; null when it has none. Errors: shapes whose GPUs and maximum loads do
/// not both ascend.
[[nodiscard]] Result<std::unique_ptr<policy::ScalingPolicy>> make_scaling_policy(const config::Recipe& recipe,
                                                                                 std::vector<policy::Shape> shapes);

/// Does an instance of this role need Beliefs::latency (apps/beliefs.h)?
[[nodiscard]] bool needs_latency(const config::Recipe& recipe, Role role);

/// The throttle's slack for an instance of this role; Span::max(): no watchdog.
[[nodiscard]] Span overrun_slack(const config::Recipe& recipe, Role role);

}  // namespace wattle::systems
