#pragma once
// Over how many steps an engine with chunked prefill (vLLM, SGLang) spreads prompts.
#include <algorithm>
#include <cstdint>

#include "model/instance.h"
#include "model/step.h"

namespace wattle {

struct PromptSteps {
  StepShape step;      ///< the longest of them
  double steps = 1.0;  ///< their number, in such steps: 1.5 if the last is half as large
};

/// `prompts` equal prompts of `tokens` in total, computed beside the decodes of `beside`, whose tokens come first in
/// each step (InstanceSpec::max_step_tokens). Without room beside them, one token a step. Engines that compute prompts
/// alone (InstanceSpec::decode_tokens) take all these steps before the decodes go on.
[[nodiscard]] inline PromptSteps prompt_steps(const InstanceSpec& spec, const StepShape& beside, std::int64_t prompts,
                                              std::int64_t tokens) {
  const std::int64_t decodes = std::int64_t{spec.decode_tokens} * beside.decode_requests;
  const std::int64_t room = std::max<std::int64_t>(spec.max_step_tokens - decodes, 1);
  const std::int64_t steps = std::max<std::int64_t>((tokens + room - 1) / room, 1);
  PromptSteps made{beside, tokens > room ? static_cast<double>(tokens) / static_cast<double>(room) : 1.0};
  if (spec.decode_tokens == 0 && tokens > 0) made.step.decode_requests = 0, made.step.decode_kv_tokens = 0;
  made.step.prefill_requests = static_cast<std::int32_t>((prompts + steps - 1) / steps);
  made.step.prefill_tokens = std::min(tokens, room);
  made.step.prefill_context_tokens = made.step.prefill_tokens * (tokens / std::max<std::int64_t>(prompts, 1)) / 2;
  return made;
}

}  // namespace wattle
