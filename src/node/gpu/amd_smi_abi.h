#pragma once
// The part of AMD SMI's C ABI that Wattle calls (amd_smi/amdsmi.h of libamd_smi 24.7, 25 and 26: ROCm 6.3, 6.4 and 7),
// declared here because the library is found at run time or not at all. Unlike NVML's, structures change between
// versions under the same name.
#include <cstddef>
#include <cstdint>

namespace wattle::node::amd_smi {

/// Build name of the fake library (fake_amd_smi/), whose GPUs are virtual.
inline constexpr const char* kFakeBuild = "wattle-fake";

using Status = std::uint32_t;
inline constexpr Status kSuccess = 0;
inline constexpr Status kInvalid = 1;
inline constexpr Status kNotSupported = 2;
inline constexpr Status kNotYetImplemented = 3;
inline constexpr Status kDrmError = 6;
inline constexpr Status kTimeout = 8;
inline constexpr Status kRetry = 9;
inline constexpr Status kNoPermission = 10;
inline constexpr Status kInterrupt = 11;
inline constexpr Status kIo = 12;
inline constexpr Status kBusy = 30;
inline constexpr Status kNotFound = 31;
inline constexpr Status kNotInitialised = 32;
inline constexpr Status kDriverNotLoaded = 34;
inline constexpr Status kSettingUnavailable = 55;
inline constexpr Status kUnknown = 0xFFFFFFFF;

using Handle = void*;

inline constexpr std::uint64_t kInitGpus = 2;
inline constexpr std::uint32_t kClockGraphics = 0;
inline constexpr std::uint32_t kLimitLeast = 0;
inline constexpr std::uint32_t kLimitMost = 1;
inline constexpr std::uint32_t kPerfLevelAuto = 0;
inline constexpr unsigned int kUuidBytes = 38;

/// What amdsmi_get_lib_version fills: year, major, minor, release up to 25; major, minor, release from 26 on. The first
/// number is the ABI's in either.
struct Version {
  std::uint32_t numbers[4];
  const char* build;
  std::uint64_t spare[8];
};
static_assert(offsetof(Version, build) == 16);

/// MHz.
struct ClockInfo {
  std::uint32_t now;
  std::uint32_t least;
  std::uint32_t most;
  std::uint8_t locked;
  std::uint8_t deep_sleep;
  std::uint32_t reserved[4];
};
static_assert(sizeof(ClockInfo) == 32);

/// W; without its first member before ABI 25.
struct PowerInfo {
  std::uint64_t socket;
  std::uint32_t now;
  std::uint32_t average;
  std::uint64_t rest[32];
};
static_assert(offsetof(PowerInfo, now) == 8 && offsetof(PowerInfo, average) == 12);
struct PowerInfo24 {
  std::uint32_t now;
  std::uint32_t average;
  std::uint32_t rest[32];
};

/// Microwatts.
struct PowerCapInfo {
  std::uint64_t cap;
  std::uint64_t default_cap;
  std::uint64_t dpm_cap;
  std::uint64_t least;
  std::uint64_t most;
  std::uint64_t reserved[3];
};
static_assert(sizeof(PowerCapInfo) == 64);

/// Percent. Larger than in any version, as the rest differs.
struct EngineUsage {
  std::uint32_t graphics;
  std::uint32_t rest[63];
};
/// The market name comes first in every version.
struct AsicInfo {
  char market_name[256];
  char rest[1792];
};

}  // namespace wattle::node::amd_smi
