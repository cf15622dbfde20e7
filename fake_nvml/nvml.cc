// libnvidia-ml.so.1 without a driver: NVML's symbols over a board of virtual GPUs (virtual_gpu.h).
// With WATTLE_FAKE_OLD_DRIVER the newer half of the symbols is missing, as on an old driver.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <list>
#include <mutex>
#include <string_view>

#include "node/gpu/nvml_abi.h"
#include "virtual_gpu/virtual_gpu.h"

using namespace wattle::node::nvml;  // NOLINT: this file is that ABI's other side
using wattle::Instant;
using wattle::MegaHertz;
using wattle::Milliwatts;
using wattle::virtual_gpu::Board;
using wattle::virtual_gpu::FaultPoint;

#define NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace wattle::node::nvml {
struct OpaqueDevice {
  int index;
};
}  // namespace wattle::node::nvml

namespace {

struct State {
  std::mutex mutex;
  int users = 0;
  std::list<Board> boards;  // the last one counts; earlier ones stay mapped for calls that still hang in them
  std::array<OpaqueDevice, wattle::virtual_gpu::kMaxGpus> devices{};
  std::array<int, 3> environment_code{};
  std::array<int, 3> environment_left{};
  bool partitioned = false;  ///< mig=1
};

State& state() {
  static State instance;
  return instance;
}

void read_environment_faults(State& s) {
  s.environment_left = {};
  s.partitioned = false;
  const char* text = std::getenv(wattle::virtual_gpu::kFaultVariable);
  if (text == nullptr) return;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest = item.size() == rest.size() ? std::string_view() : rest.substr(item.size() + 1);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = item.substr(0, equals);
    if (key == "mig") {
      s.partitioned = item.substr(equals + 1) == "1";
      continue;
    }
    const std::size_t point = key == "set" ? 0 : key == "reset" ? 1 : 2;
    int code = 0;
    int times = wattle::virtual_gpu::kFaultForever;
    const char* end = item.data() + item.size();
    const auto parsed = std::from_chars(item.data() + equals + 1, end, code);
    if (parsed.ptr != end && *parsed.ptr == '*') std::from_chars(parsed.ptr + 1, end, times);
    s.environment_code[point] = code;
    s.environment_left[point] = code == 0 ? 0 : times;
  }
}

/// The board if initialised, else null.
Board* board() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.users > 0 ? &s.boards.back() : nullptr;
}

/// What every device call does first: SUCCESS, or why it must fail.
Return enter(Device device, FaultPoint point, Board*& b) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    if (s.users == 0) return kUninitialized;
    b = &s.boards.back();
    if (device < s.devices.data() || device >= s.devices.data() + b->count()) return kInvalidArgument;
    auto& left = s.environment_left[static_cast<std::size_t>(point)];
    if (left != 0) {
      if (left > 0) --left;
      return s.environment_code[static_cast<std::size_t>(point)];
    }
  }
  return b->take_fault(device->index, point);
}

Return get(Device device, const void* out, Board*& b) {
  return out == nullptr ? kInvalidArgument : enter(device, FaultPoint::Get, b);
}

Return copy_text(const std::string& text, char* out, unsigned int length) {
  if (out == nullptr) return kInvalidArgument;
  if (length <= text.size()) return kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

unsigned int mhz(MegaHertz f) { return static_cast<unsigned int>(f.value()); }
unsigned int mw(Milliwatts p) { return static_cast<unsigned int>(p.value()); }

/// GA100 is the one recent chip whose GetPowerUsage is not a 1 s mean.
bool power_is_instant(const Board& b) { return b.name().find("A100") != std::string::npos; }

}  // namespace

NVML_EXPORT Return nvmlInit_v2() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.users == 0) {
    auto opened = Board::open_from_environment();
    if (!opened) {
      std::fprintf(stderr, "fake libnvidia-ml: %s\n", opened.error().message().c_str());
      return kDriverNotLoaded;
    }
    s.boards.push_back(std::move(*opened));
    for (int i = 0; i < wattle::virtual_gpu::kMaxGpus; ++i) s.devices[static_cast<std::size_t>(i)].index = i;
    read_environment_faults(s);
  }
  ++s.users;
  return kSuccess;
}

NVML_EXPORT Return nvmlShutdown() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.users == 0) return kUninitialized;
  --s.users;
  return kSuccess;
}

NVML_EXPORT const char* nvmlErrorString(Return code) {
  switch (code) {
    case kSuccess:
      return "Success";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNoPermission:
      return "Insufficient Permissions";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kDriverNotLoaded:
      return "Driver Not Loaded";
    case kTimeout:
      return "Timeout";
    case kGpuIsLost:
      return "GPU is lost";
    case kResetRequired:
      return "GPU requires reset";
    case kOperatingSystem:
      return "The operating system has blocked the request";
    default:
      return "Unknown Error";
  }
}

NVML_EXPORT Return nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  return board() == nullptr ? kUninitialized : copy_text("550.00.00-wattle-fake", version, length);
}

NVML_EXPORT Return nvmlDeviceGetCount_v2(unsigned int* count) {
  const Board* b = board();
  if (b == nullptr) return kUninitialized;
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned int>(b->count());
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device* device) {
  const Board* b = board();
  if (b == nullptr) return kUninitialized;
  if (device == nullptr || index >= static_cast<unsigned int>(b->count())) return kInvalidArgument;
  *device = &state().devices[index];
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  const Board* b = board();
  if (b == nullptr) return kUninitialized;
  if (uuid == nullptr || device == nullptr) return kInvalidArgument;
  for (int i = 0; i < b->count(); ++i) {
    if (b->uuid(i) == uuid) return *device = &state().devices[static_cast<std::size_t>(i)], kSuccess;
  }
  return kNotFound;
}

NVML_EXPORT Return nvmlDeviceGetUUID(Device device, char* uuid, unsigned int length) {
  Board* b = nullptr;
  const Return r = get(device, uuid, b);
  return r != kSuccess ? r : copy_text(b->uuid(device->index), uuid, length);
}

NVML_EXPORT Return nvmlDeviceGetName(Device device, char* name, unsigned int length) {
  Board* b = nullptr;
  const Return r = get(device, name, b);
  return r != kSuccess ? r : copy_text(b->name(), name, length);
}

NVML_EXPORT Return nvmlDeviceGetIndex(Device device, unsigned int* index) {
  Board* b = nullptr;
  const Return r = get(device, index, b);
  if (r == kSuccess) *index = static_cast<unsigned int>(device->index);
  return r;
}

NVML_EXPORT Return nvmlDeviceGetClockInfo(Device device, int type, unsigned int* clock) {
  Board* b = nullptr;
  const Return r = get(device, clock, b);
  if (r != kSuccess) return r;
  if (type < kClockGraphics || type > kClockVideo) return kInvalidArgument;
  *clock = mhz(type == kClockMemory ? b->memory_clock() : b->sm_clock(device->index));
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetMaxClockInfo(Device device, int type, unsigned int* clock) {
  Board* b = nullptr;
  const Return r = get(device, clock, b);
  if (r != kSuccess) return r;
  if (type < kClockGraphics || type > kClockVideo) return kInvalidArgument;
  *clock = mhz(type == kClockMemory ? b->memory_clock() : b->clock_max());
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetPowerUsage(Device device, unsigned int* power) {
  Board* b = nullptr;
  const Return r = get(device, power, b);
  if (r == kSuccess) *power = mw(power_is_instant(*b) ? b->power(device->index) : b->power_one_second(device->index));
  return r;
}

NVML_EXPORT Return nvmlDeviceGetPersistenceMode(Device device, int* mode) {
  Board* b = nullptr;
  const Return r = get(device, mode, b);
  if (r == kSuccess) *mode = 1;
  return r;
}

NVML_EXPORT Return nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  Board* b = nullptr;
  const Return r = get(device, utilization, b);
  if (r != kSuccess) return r;
  const auto busy = static_cast<unsigned int>(b->utilization_percent(device->index));
  *utilization = {busy, busy};
  return r;
}

NVML_EXPORT Return nvmlDeviceGetTemperature(Device device, int sensor, unsigned int* celsius) {
  Board* b = nullptr;
  const Return r = get(device, celsius, b);
  if (r != kSuccess) return r;
  if (sensor != 0) return kInvalidArgument;
  // A steady state good enough to be read: 30 degrees plus what the draw adds.
  *celsius = static_cast<unsigned int>(30 + 40 * b->power(device->index).value() / b->power_limit_default().value());
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetPowerManagementLimit(Device device, unsigned int* limit) {
  Board* b = nullptr;
  const Return r = get(device, limit, b);
  if (r == kSuccess) *limit = mw(b->power_limit(device->index));
  return r;
}

NVML_EXPORT Return nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned int* limit) {
  return nvmlDeviceGetPowerManagementLimit(device, limit);
}

NVML_EXPORT Return nvmlDeviceGetPowerManagementLimitConstraints(Device device, unsigned int* low, unsigned int* high) {
  Board* b = nullptr;
  if (high == nullptr) return kInvalidArgument;
  const Return r = get(device, low, b);
  if (r != kSuccess) return r;
  *low = mw(b->power_limit_min());
  *high = mw(b->power_limit_default());
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceSetPowerManagementLimit(Device device, unsigned int limit) {
  Board* b = nullptr;
  const Return r = enter(device, FaultPoint::Set, b);
  if (r != kSuccess) return r;
  if (limit < mw(b->power_limit_min()) || limit > mw(b->power_limit_default())) return kInvalidArgument;
  b->block(device->index);
  b->set_power_limit(device->index, Milliwatts(limit));
  return kSuccess;
}

#ifndef WATTLE_FAKE_OLD_DRIVER

NVML_EXPORT Return nvmlDeviceSetGpuLockedClocks(Device device, unsigned int low, unsigned int high) {
  Board* b = nullptr;
  Return r = enter(device, FaultPoint::Set, b);
  // A failing call takes its time too: a driver that answers TIMEOUT did not do so at once.
  if (b != nullptr) b->block(device->index);
  if (r != kSuccess) return r;
  if (low > high || high > 1'000'000) return kInvalidArgument;
  b->lock_clocks(device->index, MegaHertz(static_cast<int>(low)), MegaHertz(static_cast<int>(high)));
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceResetGpuLockedClocks(Device device) {
  Board* b = nullptr;
  const Return r = enter(device, FaultPoint::Reset, b);
  if (b != nullptr) b->block(device->index);
  if (r == kSuccess) b->reset_clocks(device->index);
  return r;
}

NVML_EXPORT Return nvmlDeviceGetMigMode(Device device, unsigned int* now, unsigned int* pending) {
  Board* b = nullptr;
  if (pending == nullptr) return kInvalidArgument;
  const Return r = get(device, now, b);
  if (r == kSuccess) *now = *pending = state().partitioned ? 1 : 0;
  return r;
}

NVML_EXPORT Return nvmlDeviceGetClock(Device device, int type, int id, unsigned int* clock) {
  if (id == kClockIdCurrent) return nvmlDeviceGetClockInfo(device, type, clock);
  if (id == kClockIdBoostMax) return nvmlDeviceGetMaxClockInfo(device, type, clock);
  return id == kClockIdAppTarget || id == kClockIdAppDefault ? kNotSupported : kInvalidArgument;
}

NVML_EXPORT Return nvmlDeviceGetSupportedMemoryClocks(Device device, unsigned int* count, unsigned int* clocks) {
  Board* b = nullptr;
  const Return r = get(device, count, b);
  if (r != kSuccess) return r;
  const unsigned int room = *count;
  *count = 1;
  if (room < 1 || clocks == nullptr) return kInsufficientSize;
  clocks[0] = mhz(b->memory_clock());
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetSupportedGraphicsClocks(Device device, unsigned int memory, unsigned int* count,
                                                        unsigned int* clocks) {
  Board* b = nullptr;
  const Return r = get(device, count, b);
  if (r != kSuccess) return r;
  if (memory != mhz(b->memory_clock())) return kNotFound;
  const unsigned int step = mhz(b->clock_step());
  const unsigned int room = *count;
  *count = (mhz(b->clock_max()) - mhz(b->clock_min())) / step + 1;
  if (room < *count || clocks == nullptr) return kInsufficientSize;
  for (unsigned int i = 0; i < *count; ++i) clocks[i] = mhz(b->clock_max()) - i * step;  // descending
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* millijoules) {
  Board* b = nullptr;
  const Return r = get(device, millijoules, b);
  if (r == kSuccess) {
    *millijoules = static_cast<unsigned long long>(b->energy_counter(device->index).value() / 1'000'000'000);
  }
  return r;
}

NVML_EXPORT Return nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  Board* b = nullptr;
  const Return r = get(device, values, b);
  if (r != kSuccess) return r;
  for (FieldValue* v = values; v != values + std::max(count, 0); ++v) {
    timespec wall{};
    clock_gettime(CLOCK_REALTIME, &wall);
    v->timestamp = wall.tv_sec * 1'000'000LL + wall.tv_nsec / 1000;
    v->latencyUsec = 0;
    v->nvmlReturn = kSuccess;
    v->valueType = kValueUnsignedInt;
    if (v->fieldId == kFieldPowerInstant) {
      v->value.uiVal = mw(b->power(device->index));
    } else if (v->fieldId == kFieldPowerAverage) {
      v->value.uiVal = mw(b->power_one_second(device->index));
    } else if (v->fieldId == kFieldTotalEnergy) {
      v->valueType = kValueUnsignedLongLong;
      v->nvmlReturn = nvmlDeviceGetTotalEnergyConsumption(device, &v->value.ullVal);
    } else {
      v->nvmlReturn = kNotSupported;
    }
  }
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long* reasons) {
  Board* b = nullptr;
  const Return r = get(device, reasons, b);
  if (r != kSuccess) return r;
  *reasons = 0;
  if (b->utilization_percent(device->index) == 0) {
    *reasons |= kReasonIdle;
  } else if (b->sm_clock(device->index) < b->clock(device->index).ceiling) {
    *reasons |= kReasonSwPowerCap;
  } else if (b->locked(device->index)) {
    *reasons |= kReasonApplicationClocks;
  }
  return kSuccess;
}

NVML_EXPORT Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

NVML_EXPORT Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned int* count, ProcessInfo* infos) {
  Board* b = nullptr;
  const Return r = get(device, count, b);
  if (r != kSuccess) return r;
  const int pid = b->engine_pid(device->index);
  const unsigned int room = *count;
  *count = pid == 0 ? 0 : 1;
  if (pid == 0) return kSuccess;
  if (room == 0 || infos == nullptr) return kInsufficientSize;
  infos[0] = {static_cast<unsigned int>(pid), ~0ULL, ~0U, ~0U};
  return kSuccess;
}

#endif  // WATTLE_FAKE_OLD_DRIVER
