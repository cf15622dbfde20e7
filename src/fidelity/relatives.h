#pragma once
// GPU kinds whose fit starts from another kind's factors, and how their data sheets change these.
#include <string_view>

#include "engine/hardware_profile.h"
#include "model/hardware.h"

namespace wattle::fidelity {

struct Relative {
  const char* gpu;
  const char* from;
  bool same_die;  ///< the same die with different memory
};
// Kinds that are fitted start from the relative's factors; kinds without rows keep them.
inline constexpr Relative kRelatives[] = {
    {"h200", "h100", true},      {"b200", "h100", false},     {"a100-40g", "a100-80g", true},
    {"gh200-96g", "h100", true}, {"h100-pcie", "h100", true}, {"gh200-144g", "h200", true},
    {"a10g", "a100-80g", false}, {"l40s", "h100", false},     {"rtx-a6000", "a100-80g", false},
    {"mi300x", "h100", false},   {"a40", "a100-80g", false}};

/// `from`'s factors scaled to `to`'s power limit, rates and, on the same die, memory bandwidth.
[[nodiscard]] engine::HardwareProfile scaled_to(const GpuSpec& to, const engine::HardwareProfile& factors,
                                                const GpuSpec& from, bool same_die);

/// The factors for `gpu` without any rows: within their bounds, and marked as extrapolated wherever they are used.
[[nodiscard]] engine::HardwareProfile without_rows(engine::HardwareProfile factors, std::string_view gpu);

}  // namespace wattle::fidelity
