#include "control/emergency.h"

#include <algorithm>

#include "model/believed_load.h"

namespace wattle::control {

namespace {

/// Prompt tokens per step, as engines with chunked prefill compute them.
constexpr std::int64_t kChunk = 2048;

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
    StepShape shape = at.step.shape;
    shape.prefill_requests = 1;
    shape.prefill_tokens = std::min(prompt_tokens, kChunk);
    shape.prefill_context_tokens = shape.prefill_tokens * shape.prefill_tokens / 2;
    const Span chunk = beliefs.latency->step_time(shape, clock);
    const double chunks =
        static_cast<double>(prompt_tokens) / static_cast<double>(std::max(shape.prefill_tokens, std::int64_t{1}));
    return Span::from_seconds(std::clamp(chunk.seconds() * chunks, 0.0, 1e6));
  }
  if (beliefs.load == nullptr) return Span();
  return profiled(at, request.request_class, clock, now).ttft;
}

}  // namespace wattle::control
