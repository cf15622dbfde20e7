#pragma once
// Whether a model can be distributed over GPUs in a given way, memory aside.
#include <string>

#include "base/error.h"
#include "model/hardware.h"

namespace wattle::engine {

/// Errors, at `where`: degrees that do not divide heads, layers or experts, data parallelism without experts.
[[nodiscard]] Result<void> check_shape(const std::string& where, const LlmSpec& llm, const Parallelism& parallel);

}  // namespace wattle::engine
