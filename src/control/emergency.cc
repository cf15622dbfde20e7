#include "control/emergency.h"

#include <algorithm>

#include "model/believed_load.h"
#include "model/prompt_steps.h"

namespace wattle::control {

namespace {

/// The point of Beliefs::load at the present load.
LoadPoint profiled(const InstanceView& at, ClassId of, MegaHertz clock, Instant now) {
  return at.spec->beliefs.load->at(of, present_load_per_s(at, most_load_per_s(at, of), now), clock);
}

Span token_time(const InstanceView& at, const Request& request, MegaHertz clock, Instant now) {
  const Beliefs& beliefs = at.spec->beliefs;
  if (beliefs.latency != nullptr) {
    StepShape shape;
    shape.decode_requests = at.step.shape.decode_requests + 1;
    shape.decode_kv_tokens = at.step.shape.decode_kv_tokens + request.prompt_tokens;
    return beliefs.latency->step_time(shape, clock);
  }
  if (beliefs.load == nullptr) return Span();
  return profiled(at, request.request_class, clock, now).tbt;
}

}  // namespace

Instant first_token_due(const Request& request, const Objectives& objectives, const InstanceView& at, MegaHertz clock) {
  const Slo& slo = objectives.of(request);
  if (slo.ttft) return request.arrival + *slo.ttft;
  if (!slo.e2e) return Instant::never();
  const Span answer = token_time(at, request, clock, request.arrival) * (Classifier::believed_output(request) - 1);
  return request.arrival + *slo.e2e - std::min(answer, *slo.e2e);
}

Span prompt_time(const InstanceView& at, std::int64_t prompt_tokens, const Request& request, MegaHertz clock,
                 Instant now) {
  const Beliefs& beliefs = at.spec->beliefs;
  if (beliefs.latency != nullptr) {
    const PromptSteps its = prompt_steps(*at.spec, at.step.shape, 1, prompt_tokens);
    const Span longest = beliefs.latency->step_time(its.step, clock);
    return Span::from_seconds(std::clamp(longest.seconds() * its.steps, 0.0, 1e6));
  }
  if (beliefs.load == nullptr) return Span();
  return profiled(at, request.request_class, clock, now).ttft;
}

}  // namespace wattle::control
