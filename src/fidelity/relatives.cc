#include "fidelity/relatives.h"

#include <algorithm>

namespace wattle::fidelity {

using engine::HardwareProfile;

HardwareProfile scaled_to(const GpuSpec& to, const HardwareProfile& factors, const GpuSpec& from, bool same_die) {
  HardwareProfile scaled = factors;
  // A card with another power limit and rate is assumed to spend its limit at the same utilisation.
  const double watts = to.tdp / from.tdp;
  for (const auto member : {&HardwareProfile::idle_floor_w, &HardwareProfile::idle_clock_w, &HardwareProfile::active_w,
                            &HardwareProfile::busy_w}) {
    scaled.*member *= watts;
  }
  scaled.tensor_pj_per_flop *= watts * from.bf16_flops_per_s / to.bf16_flops_per_s;
  scaled.memory_pj_per_byte *=
      std::min(1.0, watts * from.memory_bandwidth_bytes_per_s / to.memory_bandwidth_bytes_per_s);
  // The same L2 in front of other memory: at the same clock a byte takes as long through it, next to another memory
  // time.
  if (same_die) {
    const double share = to.memory_bandwidth_bytes_per_s / from.memory_bandwidth_bytes_per_s * from.clock_max.value() /
                         to.clock_max.value();
    scaled.memory_clock_share *= share;
    scaled.decode_attention_clock_share *= share;
  }
  return scaled;
}

HardwareProfile without_rows(HardwareProfile factors, std::string_view gpu) {
  factors.gpu = gpu;
  for (const engine::ProfileField& field : engine::profile_fields()) {
    double& value = factors.*(field.member);
    value = std::clamp(value, field.low, field.high);
  }
  // A relative's range says nothing about this GPU.
  for (const auto measured : {&HardwareProfile::measured_requests, &HardwareProfile::measured_context_tokens,
                              &HardwareProfile::measured_step_tokens, &HardwareProfile::measured_tensor_parallel,
                              &HardwareProfile::measured_clock_low_mhz, &HardwareProfile::measured_clock_high_mhz}) {
    factors.*measured = 0.0;
  }
  return factors;
}

}  // namespace wattle::fidelity
