#pragma once
// A single kernel repeated until the card settles, as kernel tables measure it: time and power at the clock TDP allows.
#include <functional>

#include "engine/operations.h"
#include "model/hardware.h"

namespace wattle::fidelity {

struct KernelResult {
  double seconds = 0.0;
  double power_w = 0.0;
};

/// `work` prices the kernel with the operations of one clock; without `clip` the card stays at its highest clock.
[[nodiscard]] KernelResult repeat_kernel(const GpuSpec& gpu, const LlmSpec& llm, std::int32_t tensor_parallel,
                                         const engine::HardwareProfile& profile, bool clip,
                                         const std::function<engine::Work(const engine::Operations&)>& work);

}  // namespace wattle::fidelity
