#pragma once
#include <cstdint>

#include "engine/step_model.h"
#include "model/service.h"

namespace wattle::calibrate {

/// How long a request takes alone on instances of these kinds at this clock: to its first token `prompt_tokens` in one
/// step, then a batch of one at that context. Both may be the same model.
[[nodiscard]] ServiceTime service_time(const engine::StepModel& prefill, const engine::StepModel& decode,
                                       MegaHertz clock, std::int32_t prompt_tokens = 512);

}  // namespace wattle::calibrate
