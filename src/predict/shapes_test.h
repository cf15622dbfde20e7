#pragma once
// Tests only: steps of one phase.
#include "model/step.h"

namespace wattle::predict {

inline StepShape decodes(std::int32_t requests, std::int64_t kv_tokens) { return {requests, kv_tokens, 0, 0, 0}; }

inline StepShape prompts(std::int64_t tokens, std::int64_t context_tokens = 0) {
  return {0, 0, 1, tokens, context_tokens};
}

}  // namespace wattle::predict
