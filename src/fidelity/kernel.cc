#include "fidelity/kernel.h"

#include "engine/power.h"

namespace wattle::fidelity {

KernelResult repeat_kernel(const GpuSpec& gpu, const LlmSpec& llm, std::int32_t tensor_parallel,
                           const engine::HardwareProfile& profile, bool clip,
                           const std::function<engine::Work(const engine::Operations&)>& work) {
  const double top = gpu.clock_max.value();
  const double limit = gpu.tdp.value() * profile.clip_share;
  const auto at = [&](double mhz) -> KernelResult {
    const engine::Operations operations(gpu, llm, tensor_parallel, profile, mhz);
    const engine::Work w = work(operations);
    return {w.seconds, engine::PowerAtClock(profile, mhz / top).step_w(w, 0.0)};
  };
  const KernelResult free = at(top);
  if (!clip || free.power_w <= limit) return free;
  double low = gpu.clock_min.value();
  double high = top;
  for (int i = 0; i < 9; ++i) {
    const double middle = 0.5 * (low + high);
    (at(middle).power_w <= limit ? low : high) = middle;
  }
  return {at(low).seconds, limit};
}

}  // namespace wattle::fidelity
