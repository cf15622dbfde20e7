#include "calibrate/service_time.h"

#include "engine/step_run.h"

namespace wattle::calibrate {

ServiceTime service_time(const engine::StepModel& prefill, const engine::StepModel& decode, MegaHertz clock,
                         std::int32_t prompt_tokens) {
  StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_tokens = prompt_tokens;
  shape.prefill_context_tokens = std::int64_t{prompt_tokens} * prompt_tokens / 2;
  const std::int64_t first = prefill.mixed(shape, clock).duration;
  const engine::DecodeLine line = decode.decode(1, prompt_tokens, clock);
  const auto span = [](std::int64_t fixed) { return Span(fixed >> engine::kTimeFractionBits); };
  return {span(first), span(line.base + line.slope * prompt_tokens)};
}

}  // namespace wattle::calibrate
