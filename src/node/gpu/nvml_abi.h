#pragma once
// The part of NVML's C ABI that Wattle calls, declared here because the library is found at run time or not at all.
// Layouts and values are NVML's and never change (new versions of a call get a new symbol name).
#include <cstddef>

namespace wattle::node::nvml {

/// Suffix of the fake driver's version (fake_nvml/), whose GPUs are virtual.
inline constexpr const char* kFakeDriver = "-wattle-fake";

using Return = int;
inline constexpr Return kSuccess = 0;
inline constexpr Return kUninitialized = 1;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kNoPermission = 4;
inline constexpr Return kNotFound = 6;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kDriverNotLoaded = 9;
inline constexpr Return kTimeout = 10;
inline constexpr Return kLibraryNotFound = 12;
inline constexpr Return kFunctionNotFound = 13;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;
inline constexpr Return kOperatingSystem = 17;
inline constexpr Return kLibRmVersionMismatch = 18;
inline constexpr Return kInUse = 19;
inline constexpr Return kMemory = 20;
inline constexpr Return kInsufficientResources = 23;
inline constexpr Return kFreqNotSupported = 24;
inline constexpr Return kInvalidState = 29;
inline constexpr Return kUnknown = 999;

using Device = struct OpaqueDevice*;

enum ClockType : int { kClockGraphics = 0, kClockSm = 1, kClockMemory = 2, kClockVideo = 3 };
enum ClockId : int { kClockIdCurrent = 0, kClockIdAppTarget = 1, kClockIdAppDefault = 2, kClockIdBoostMax = 3 };

struct Utilization {
  unsigned int gpu;
  unsigned int memory;
};

union Value {
  double dVal;
  unsigned int uiVal;
  unsigned long ulVal;
  unsigned long long ullVal;
  signed long long sllVal;
};
enum ValueType : int { kValueDouble = 0, kValueUnsignedInt = 1, kValueUnsignedLong = 2, kValueUnsignedLongLong = 3 };

struct FieldValue {
  unsigned int fieldId;
  unsigned int scopeId;
  long long timestamp;
  long long latencyUsec;
  int valueType;
  Return nvmlReturn;
  Value value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, value) == 32, "NVML's layout");

struct ProcessInfo {
  unsigned int pid;
  unsigned long long usedGpuMemory;
  unsigned int gpuInstanceId;
  unsigned int computeInstanceId;
};
static_assert(sizeof(ProcessInfo) == 24, "NVML's layout since _v2");

inline constexpr unsigned int kFieldTotalEnergy = 83;
inline constexpr unsigned int kFieldPowerAverage = 185;
inline constexpr unsigned int kFieldPowerInstant = 186;

inline constexpr unsigned long long kReasonIdle = 0x1;
inline constexpr unsigned long long kReasonApplicationClocks = 0x2;
inline constexpr unsigned long long kReasonSwPowerCap = 0x4;

inline constexpr unsigned int kUuidBytes = 96;
inline constexpr unsigned int kNameBytes = 96;

}  // namespace wattle::node::nvml
