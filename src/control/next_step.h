#pragma once
// Engines report a step when it has ended (SGLang's and vLLM's forward-pass metrics); a clock is wanted for the next
// one.
#include <optional>

#include "control/instance_work.h"
#include "model/instance.h"
#include "model/telemetry_source.h"

namespace wattle::control {

/// The step that follows `ended`, as far as the report and, where there is a gateway to say so, the instance's requests
/// tell: decodes go on and grow by a token each, prompts that are computed decode where both happen, the engine's queue
/// is computed next as far as the KV cache has room. What left with the step that ended shows in `work` alone; without
/// it everything is taken to go on. `ended` of a step that starts is returned as it is.
[[nodiscard]] StepReport next_step(const StepReport& ended, const InstanceSpec& spec,
                                   const std::optional<InstanceWork>& work);

/// The step in progress by the gateway's own records alone, where an engine reports none: those with a first token
/// decode, those in `computing` are computed as far as the KV cache has room, the others wait. What of these prompts
/// has been computed since they began, at this clock by Beliefs::latency, is no part of it any more; where they should
/// have been computed long ago, they wait as well.
[[nodiscard]] StepReport seen_by_streams(const InstanceWork& work, const InstanceSpec& spec, MegaHertz clock,
                                         Instant now);

/// The same for those who look at the instance from outside: where nobody can say how long prompts take, all of them
/// wait, so that a stuck engine's can be taken elsewhere.
[[nodiscard]] StepReport shown_by_streams(InstanceWork work, const InstanceSpec& spec, MegaHertz clock, Instant now);

/// What is there by an engine's own gauges: requests that run, taken to decode (an instance that computes prompts only
/// has them wait), with the resident context between them, and those that wait, of unknown length.
[[nodiscard]] StepReport seen_by_gauges(const LoadGauges& gauges, const InstanceSpec& spec, Instant now);

/// The first step of an instance that had nothing to do and has been sent this.
[[nodiscard]] StepReport first_step(const StepReport& idle, const InstanceSpec& spec, const InstanceWork& work,
                                    Instant now);

}  // namespace wattle::control
