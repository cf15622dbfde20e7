#pragma once
// What an NVML return code means for a caller that wants to go on.
#include <cstdint>
#include <string>

#include "node/gpu/nvml_abi.h"

namespace wattle::node {

enum class GpuStatus : std::uint8_t {
  Ok,
  Absent,     ///< this driver, GPU or partition cannot do it: never ask again, run read-only
  Forbidden,  ///< we may not: tell the operator once, never retry
  Transient,  ///< may work in a moment: retry with back-off
  Gone,       ///< the device is lost: no more writes, release what relies on it
  Refused,    ///< the arguments were wrong: a bug of ours or an odd device; counted, not retried
};

[[nodiscard]] constexpr GpuStatus status_of(nvml::Return code) {
  switch (code) {
    case nvml::kSuccess:
      return GpuStatus::Ok;
    case nvml::kNotSupported:
    case nvml::kLibraryNotFound:
    case nvml::kFunctionNotFound:
      return GpuStatus::Absent;
    case nvml::kNoPermission:
    case nvml::kOperatingSystem:
      return GpuStatus::Forbidden;
    case nvml::kTimeout:
    case nvml::kInUse:
    case nvml::kUnknown:
      return GpuStatus::Transient;
    case nvml::kGpuIsLost:
    case nvml::kResetRequired:
    case nvml::kDriverNotLoaded:
    case nvml::kLibRmVersionMismatch:
      return GpuStatus::Gone;
    default:
      return GpuStatus::Refused;
  }
}

[[nodiscard]] constexpr const char* name_of(GpuStatus status) {
  switch (status) {
    case GpuStatus::Ok:
      return "ok";
    case GpuStatus::Absent:
      return "absent";
    case GpuStatus::Forbidden:
      return "forbidden";
    case GpuStatus::Transient:
      return "transient";
    case GpuStatus::Gone:
      return "gone";
    case GpuStatus::Refused:
      return "refused";
  }
  return "refused";
}

/// What a power reading means.
enum class PowerReading : std::uint8_t {
  Instant,
  OneSecondMean,
};

/// A value, or why there is none; `code` is NVML's own.
template <typename T>
struct GpuAnswer {
  T value{};
  nvml::Return code = nvml::kSuccess;
  [[nodiscard]] GpuStatus status() const { return status_of(code); }
  [[nodiscard]] bool ok() const { return code == nvml::kSuccess; }
};

}  // namespace wattle::node
