#pragma once
// Kinds of GPU that start from another's factors, and what their data sheets change in those.
#include <string_view>

#include "engine/hardware_profile.h"
#include "model/hardware.h"

namespace wattle::fidelity {

struct Relative {
  const char* gpu;
  const char* from;
  bool same_die;  ///< with other memory beside it
};
// Kinds that are fitted start from the relative's factors; kinds without rows keep them.
inline constexpr Relative kRelatives[] = {
    {"h200", "h100", true},      {"b200", "h100", false},     {"a100-40g", "a100-80g", true},
    {"gh200-96g", "h100", true}, {"h100-pcie", "h100", true}, {"gh200-144g", "h200", true},
    {"a10g", "a100-80g", false}, {"l40s", "h100", false},     {"rtx-a6000", "a100-80g", false},
    {"mi300x", "h100", false},   {"a40", "a100-80g", false}};

/// `from`'s factors on `to`'s power limit, rates and, on the same die, memory bandwidth.
[[nodiscard]] engine::HardwareProfile scaled_to(const GpuSpec& to, const engine::HardwareProfile& factors,
                                                const GpuSpec& from, bool same_die);

/// The factors for `gpu` before any row of it is seen: within their bounds, and flagged as extrapolated wherever they
/// are used.
[[nodiscard]] engine::HardwareProfile without_rows(engine::HardwareProfile factors, std::string_view gpu);

}  // namespace wattle::fidelity
