// libamd_smi.so without a driver: AMD SMI's symbols over the same boards of virtual GPUs as the fake NVML, as
// version 24.7, 25, 26 or one that nobody knows (WATTLE_FAKE_AMD_SMI_ABI=27). Faults are injected by NVML's codes, as
// for that.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>

#include "node/gpu/amd_smi_abi.h"
#include "virtual_gpu/virtual_gpu.h"

using namespace wattle::node::amd_smi;  // NOLINT: this file is that ABI's other side
using wattle::MegaHertz;
using wattle::Milliwatts;
using wattle::virtual_gpu::Board;
using wattle::virtual_gpu::FaultPoint;

#define AMD_SMI_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct State {
  std::mutex mutex;
  int users = 0;
  std::list<Board> boards;
  std::array<int, wattle::virtual_gpu::kMaxGpus> gpus{};  ///< their addresses are the handles
};

State& state() {
  static State instance;
  return instance;
}

std::uint32_t abi() {
  const char* text = std::getenv("WATTLE_FAKE_AMD_SMI_ABI");
  return text == nullptr ? 26 : static_cast<std::uint32_t>(std::atoi(text));
}

Status from_nvml(int code) {
  switch (code) {
    case 0:
      return kSuccess;
    case 3:
      return kNotSupported;
    case 4:
      return kNoPermission;
    case 10:
      return kTimeout;
    case 15:
      return kNotFound;
    case 19:
      return kBusy;
    default:
      return kUnknown;
  }
}

Status enter(Handle handle, FaultPoint point, Board*& board, int& gpu) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.users == 0) return kNotInitialised;
  board = &s.boards.back();
  const int* at = static_cast<int*>(handle);
  if (at < s.gpus.data() || at >= s.gpus.data() + board->count()) return kInvalid;
  gpu = static_cast<int>(at - s.gpus.data());
  return from_nvml(board->take_fault(gpu, point));
}

std::uint32_t mhz(MegaHertz f) { return static_cast<std::uint32_t>(f.value()); }

}  // namespace

AMD_SMI_EXPORT Status amdsmi_init(std::uint64_t flags) {
  if ((flags & kInitGpus) == 0) return kInvalid;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.users == 0) {
    auto opened = Board::open_from_environment();
    if (!opened) {
      std::fprintf(stderr, "fake libamd_smi: %s\n", opened.error().message().c_str());
      return kDriverNotLoaded;
    }
    s.boards.push_back(std::move(*opened));
  }
  ++s.users;
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_shut_down() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.users == 0) return kNotInitialised;
  --s.users;
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_lib_version(void* version) {
  if (version == nullptr) return kInvalid;
  // Not Version, whose spare room no real library fills.
  struct {
    std::uint32_t numbers[4];
    const char* build;
  } v{{abi(), 0, 0, 0}, kFakeBuild};
  if (abi() == 24) v.numbers[1] = 7;
  if (abi() == 25) v.numbers[1] = 25;
  std::memcpy(version, &v, sizeof v);
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_socket_handles(std::uint32_t* count, Handle* handles) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.users == 0) return kNotInitialised;
  if (count == nullptr) return kInvalid;
  const auto sockets = static_cast<std::uint32_t>(s.boards.back().count());  // one GPU each
  if (handles != nullptr) {
    *count = std::min(*count, sockets);
    for (std::uint32_t i = 0; i < *count; ++i) handles[i] = &s.gpus[i];
  } else {
    *count = sockets;
  }
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_processor_handles(Handle socket, std::uint32_t* count, Handle* handles) {
  if (socket == nullptr || count == nullptr) return kInvalid;
  if (handles != nullptr && *count > 0) handles[0] = socket;
  *count = 1;
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_gpu_device_uuid(Handle handle, unsigned int* length, char* uuid) {
  Board* b = nullptr;
  int gpu = 0;
  if (length == nullptr || uuid == nullptr || *length < kUuidBytes) return kInvalid;
  const Status r = enter(handle, FaultPoint::Get, b, gpu);
  if (r != kSuccess) return r;
  // AMD's have no "GPU-" before them.
  const std::string text = b->uuid(gpu).substr(4);
  std::snprintf(uuid, *length, "%s", text.c_str());
  *length = static_cast<unsigned int>(text.size()) + 1;
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_gpu_asic_info(Handle handle, void* info) {
  Board* b = nullptr;
  int gpu = 0;
  if (info == nullptr) return kInvalid;
  const Status r = enter(handle, FaultPoint::Get, b, gpu);
  if (r != kSuccess) return r;
  std::snprintf(static_cast<char*>(info), 64, "%s", b->name().c_str());
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_gpu_compute_partition(Handle handle, char* kind, std::uint32_t length) {
  Board* b = nullptr;
  int gpu = 0;
  if (kind == nullptr || length == 0) return kInvalid;
  const Status r = enter(handle, FaultPoint::Get, b, gpu);
  if (r != kSuccess) return r;
  const char* text = std::getenv("WATTLE_FAKE_AMD_SMI_PARTITION");
  std::snprintf(kind, length, "%s", text == nullptr ? "SPX" : text);
  return kSuccess;
}

/// The ends are those of the limits that are set.
AMD_SMI_EXPORT Status amdsmi_get_clock_info(Handle handle, std::uint32_t type, void* info) {
  Board* b = nullptr;
  int gpu = 0;
  if (info == nullptr || type != kClockGraphics) return kInvalid;
  const Status r = enter(handle, FaultPoint::Get, b, gpu);
  if (r != kSuccess) return r;
  ClockInfo clock{};
  clock.now = mhz(b->sm_clock(gpu));
  clock.least = mhz(b->clock_min());
  clock.most = mhz(b->locked(gpu) ? b->clock(gpu).ceiling : b->clock_max());
  std::memcpy(info, &clock, sizeof clock);
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_set_gpu_clk_limit(Handle handle, std::uint32_t type, std::uint32_t limit,
                                               std::uint64_t clock) {
  Board* b = nullptr;
  int gpu = 0;
  if (type != kClockGraphics) return kInvalid;
  if (limit == kLimitLeast) return kNotSupported;  // as on most cards
  const Status r = enter(handle, FaultPoint::Set, b, gpu);
  if (b != nullptr) b->block(gpu);
  if (r != kSuccess) return r;
  if (clock < mhz(b->clock_min()) || clock > mhz(b->clock_max())) return kInvalid;
  const MegaHertz most(static_cast<std::int32_t>(clock));
  b->lock_clocks(gpu, most, most);
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_set_gpu_perf_level(Handle handle, std::uint32_t level) {
  Board* b = nullptr;
  int gpu = 0;
  const Status r = enter(handle, FaultPoint::Reset, b, gpu);
  if (b != nullptr) b->block(gpu);
  if (r != kSuccess) return r;
  if (level != kPerfLevelAuto) return kInvalid;
  b->reset_clocks(gpu);
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_power_info(Handle handle, void* info) {
  Board* b = nullptr;
  int gpu = 0;
  if (info == nullptr) return kInvalid;
  const Status r = enter(handle, FaultPoint::Get, b, gpu);
  if (r != kSuccess) return r;
  const auto watts = static_cast<std::uint32_t>(b->power(gpu).value() / 1000);
  const auto mean = static_cast<std::uint32_t>(b->power_one_second(gpu).value() / 1000);
  // As large as the version's own structure, no larger: 68, 40 and 192 bytes.
  auto* to = static_cast<char*>(info);
  std::memset(to, 0, abi() == 24 ? 68 : abi() == 25 ? 40 : 192);
  const std::size_t at = abi() == 24 ? 0 : 8;
  std::memcpy(to + at, &watts, sizeof watts);
  std::memcpy(to + at + 4, &mean, sizeof mean);
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_energy_count(Handle handle, std::uint64_t* counts, float* microjoules,
                                              std::uint64_t* at_ns) {
  Board* b = nullptr;
  int gpu = 0;
  if (counts == nullptr || microjoules == nullptr || at_ns == nullptr) return kInvalid;
  const Status r = enter(handle, FaultPoint::Get, b, gpu);
  if (r != kSuccess) return r;
  constexpr double kResolution = 15.3;  // MI200's and MI300's, microjoules a count
  *microjoules = static_cast<float>(kResolution);
  *counts = static_cast<std::uint64_t>(static_cast<double>(b->energy_counter(gpu).value()) * 1e-6 / kResolution);
  *at_ns = static_cast<std::uint64_t>(b->now().ns());
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_power_cap_info(Handle handle, std::uint32_t, void* info) {
  Board* b = nullptr;
  int gpu = 0;
  if (info == nullptr) return kInvalid;
  const Status r = enter(handle, FaultPoint::Get, b, gpu);
  if (r != kSuccess) return r;
  const auto uw = [](Milliwatts p) { return static_cast<std::uint64_t>(p.value()) * 1000; };
  const PowerCapInfo caps{uw(b->power_limit(gpu)),  uw(b->power_limit_default()), 0,
                          uw(b->power_limit_min()), uw(b->power_limit_default()), {}};
  std::memcpy(info, &caps, sizeof caps);
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_set_power_cap(Handle handle, std::uint32_t, std::uint64_t cap_uw) {
  Board* b = nullptr;
  int gpu = 0;
  const Status r = enter(handle, FaultPoint::Set, b, gpu);
  if (r != kSuccess) return r;
  const Milliwatts limit(static_cast<std::int64_t>(cap_uw / 1000));
  if (limit < b->power_limit_min() || limit > b->power_limit_default()) return kInvalid;
  b->block(gpu);
  b->set_power_limit(gpu, limit);
  return kSuccess;
}

AMD_SMI_EXPORT Status amdsmi_get_gpu_activity(Handle handle, void* usage) {
  Board* b = nullptr;
  int gpu = 0;
  if (usage == nullptr) return kInvalid;
  const Status r = enter(handle, FaultPoint::Get, b, gpu);
  if (r != kSuccess) return r;
  const std::uint32_t busy = static_cast<std::uint32_t>(b->utilization_percent(gpu));
  const std::array<std::uint32_t, 16> all{busy, busy, 0};
  std::memcpy(usage, all.data(), sizeof all);
  return kSuccess;
}
