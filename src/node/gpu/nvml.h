#pragma once
// GPUs through NVML: the library is opened at run time, every symbol may be missing, every call may fail.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "node/gpu/status.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::node {

class Nvml;

/// How a wished clock had to be bent to what the device offers. Never silent: counted by direction.
enum class Clamp : std::uint8_t { None, Up, Down };

/// One GPU. A small value; valid while its Nvml lives. Calls may block for as long as the driver likes, so never make
/// them on a thread that decides.
class Gpu {
 public:
  [[nodiscard]] const std::string& uuid() const { return uuid_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint32_t index() const { return index_; }
  /// Ascending; empty when the device would not say, and then nothing is snapped.
  [[nodiscard]] const std::vector<MegaHertz>& clocks() const { return clocks_; }

  struct Snapped {
    MegaHertz clock;
    Clamp clamp = Clamp::None;
  };
  /// The highest supported clock not above `wish`; the lowest there is when all are above.
  /// Clamp says only that `wish` lay outside the range: rounding down to a step inside it is no clamp.
  [[nodiscard]] Snapped snap(MegaHertz wish) const;

  /// min = max = clock. A success means the request is stored; the clock arrives later and may stay lower (power).
  [[nodiscard]] GpuStatus lock_clock(MegaHertz clock) const;
  [[nodiscard]] GpuStatus reset_clock() const;
  /// Instead of a clock, where a device takes no lock. Stays when its process ends, as a lock does.
  [[nodiscard]] GpuStatus set_power_limit(Milliwatts limit) const;
  [[nodiscard]] GpuAnswer<Milliwatts> power_limit() const;        ///< as somebody set it
  [[nodiscard]] GpuAnswer<Milliwatts> least_power_limit() const;  ///< that it takes
  /// Multi-Instance GPU mode is on: a clock would be every partition's, other people's too.
  [[nodiscard]] bool partitioned() const;
  [[nodiscard]] GpuAnswer<MegaHertz> sm_clock() const;
  [[nodiscard]] GpuAnswer<MegaHertz> max_sm_clock() const;
  /// As good as the driver has it: the instant field, else GetPowerUsage (a 1 s mean except on A100).
  [[nodiscard]] GpuAnswer<Milliwatts> power() const;
  /// Which of the two power() gives here.
  [[nodiscard]] PowerReading power_reading() const { return power_reading_; }
  [[nodiscard]] GpuAnswer<Milliwatts> average_power() const;
  /// Millijoules since the driver was loaded; refreshed every 20 to 100 ms (see EnergyMeter).
  [[nodiscard]] GpuAnswer<std::uint64_t> energy_counter_mj() const;
  [[nodiscard]] GpuAnswer<std::uint32_t> utilization_percent() const;
  [[nodiscard]] GpuAnswer<std::uint64_t> clock_event_reasons() const;
  [[nodiscard]] GpuAnswer<std::uint32_t> temperature_celsius() const;
  [[nodiscard]] GpuAnswer<Milliwatts> enforced_power_limit() const;
  [[nodiscard]] GpuAnswer<bool> persistence_mode() const;
  /// Processes with a compute context. Their number is all we ask.
  [[nodiscard]] GpuAnswer<std::uint32_t> compute_processes() const;
  /// No work and no compute process, as far as the device says; anything unknown counts as busy.
  [[nodiscard]] bool idle() const;

 private:
  friend class Nvml;
  template <typename T, typename Raw, typename Function, typename... Args>
  [[nodiscard]] GpuAnswer<T> read(Function function, Args... args) const;

  const Nvml* nvml_ = nullptr;
  nvml::Device device_ = nullptr;
  std::uint32_t index_ = 0;
  std::string uuid_;
  std::string name_;
  std::vector<MegaHertz> clocks_;
  PowerReading power_reading_ = PowerReading::Instant;
};

/// An initialised NVML library. Thread-safe as NVML is: any call from any thread.
class Nvml {
 public:
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  /// Opens and initialises. Errors: library not found, no driver, a symbol missing without which nothing works.
  [[nodiscard]] static Result<std::shared_ptr<const Nvml>> open(const std::string& library = kLibrary);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  [[nodiscard]] Result<std::uint32_t> count() const;
  /// Errors: no such device; a device that does not tell its UUID (we could not remember it).
  [[nodiscard]] Result<Gpu> by_index(std::uint32_t index) const;
  [[nodiscard]] Result<Gpu> by_uuid(const std::string& uuid) const;
  /// "0" or "GPU-…": what a person writes.
  [[nodiscard]] Result<Gpu> find(const std::string& index_or_uuid) const;
  [[nodiscard]] std::string driver_version() const;
  /// The GPUs behind it are virtual ones (virtual_gpu/): the fake driver says so in its version.
  [[nodiscard]] bool emulated() const { return driver_version().ends_with(nvml::kFakeDriver); }
  /// Folder in which agents of this machine say which GPUs they have: /run/lock/wattle; of virtual GPUs beside their
  /// board, since those of two boards may have one name.
  [[nodiscard]] std::string lock_folder() const;
  [[nodiscard]] std::string error_text(nvml::Return code) const;
  /// The symbol for locking clocks is there (the device may still say no).
  [[nodiscard]] bool can_lock() const;

 private:
  friend class Gpu;
  struct Symbols;
  Nvml();
  [[nodiscard]] Result<Gpu> describe(nvml::Device device, const std::string& where) const;
  [[nodiscard]] std::vector<MegaHertz> supported_clocks(nvml::Device device) const;

  void* library_ = nullptr;
  std::unique_ptr<Symbols> symbols_;
};

}  // namespace wattle::node
