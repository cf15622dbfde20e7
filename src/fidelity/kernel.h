#pragma once
// A single kernel repeated until the GPU is in steady state, as in kernel tables: time and power at the clock that TDP
// allows.
#include <functional>

#include "engine/operations.h"
#include "model/hardware.h"

namespace wattle::fidelity {

struct KernelResult {
  double seconds = 0.0;
  double power_w = 0.0;
};

/// `work` gives the kernel's operations at one clock; without `clip` the GPU stays at its highest clock.
[[nodiscard]] KernelResult repeat_kernel(const GpuSpec& gpu, const LlmSpec& llm, std::int32_t tensor_parallel,
                                         const engine::HardwareProfile& profile, bool clip,
                                         const std::function<engine::Work(const engine::Operations&)>& work);

}  // namespace wattle::fidelity
