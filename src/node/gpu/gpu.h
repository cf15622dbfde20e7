#pragma once
// GPUs through the library that knows them: NVML, AMD SMI, or NVML with a daemon that has more permissions.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "node/gpu/status.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::node {

class GpuLibrary;

/// How a requested clock was clamped to the device's range. Counted by direction.
enum class Clamp : std::uint8_t { None, Up, Down };

/// One GPU. A small value, valid while its library lives. Calls may block for as long as the driver likes: never call
/// it on a deciding thread.
class Gpu {
 public:
  struct Description {
    std::uint32_t index = 0;
    std::string uuid = {};
    std::string name = {};
    std::vector<MegaHertz> clocks = {};
    PowerReading power_reading = PowerReading::Instant;
  };
  /// `device`: the library's own handle.
  Gpu(const GpuLibrary& library, void* device, Description is)
      : library_(&library), device_(device), is_(std::move(is)) {}

  [[nodiscard]] const std::string& uuid() const { return is_.uuid; }
  [[nodiscard]] const std::string& name() const { return is_.name; }
  [[nodiscard]] std::uint32_t index() const { return is_.index; }
  [[nodiscard]] void* device() const { return device_; }
  /// Ascending; empty if the device does not report them: then clocks are not rounded.
  [[nodiscard]] const std::vector<MegaHertz>& clocks() const { return is_.clocks; }

  struct Snapped {
    MegaHertz clock;
    Clamp clamp = Clamp::None;
  };
  /// The highest supported clock not above `wish`; the lowest one if all are above. Clamp states only whether `wish`
  /// was outside the range: rounding down within it is no clamp.
  [[nodiscard]] Snapped snap(MegaHertz wish) const;

  /// Sets min = max = clock. Success means that the request is stored; the clock changes later and may stay lower
  /// (power).
  [[nodiscard]] GpuStatus lock_clock(MegaHertz clock) const;
  [[nodiscard]] GpuStatus reset_clock() const;
  /// In place of a clock, if a device takes no lock. Like a lock, it remains when the process ends.
  [[nodiscard]] GpuStatus set_power_limit(Milliwatts limit) const;
  [[nodiscard]] GpuAnswer<Milliwatts> power_limit() const;        ///< as currently set
  [[nodiscard]] GpuAnswer<Milliwatts> least_power_limit() const;  ///< the least that it takes
  /// Whether Multi-Instance GPU mode is on: a clock would apply to all partitions, including other users'.
  [[nodiscard]] bool partitioned() const;
  [[nodiscard]] GpuAnswer<MegaHertz> sm_clock() const;
  [[nodiscard]] GpuAnswer<MegaHertz> max_sm_clock() const;
  /// The most current value that the driver offers: the instant field, otherwise GetPowerUsage (a 1 s mean except on
  /// A100).
  [[nodiscard]] GpuAnswer<Milliwatts> power() const;
  /// Which of the two power() returns.
  [[nodiscard]] PowerReading power_reading() const { return is_.power_reading; }
  [[nodiscard]] GpuAnswer<Milliwatts> average_power() const;
  /// Millijoules since the driver was loaded; updated every 20 to 100 ms (see EnergyMeter).
  [[nodiscard]] GpuAnswer<std::uint64_t> energy_counter_mj() const;
  [[nodiscard]] GpuAnswer<std::uint32_t> utilization_percent() const;
  /// Whether the device has its own reasons for a clock below the lock: idle, capped, hot, or short of power.
  [[nodiscard]] GpuAnswer<bool> limited() const;
  [[nodiscard]] GpuAnswer<Milliwatts> enforced_power_limit() const;
  /// Number of processes with a compute context.
  [[nodiscard]] GpuAnswer<std::uint32_t> compute_processes() const;
  /// No work and no compute process, as far as the device reports; anything unknown counts as busy.
  [[nodiscard]] bool idle() const;

 private:
  const GpuLibrary* library_;
  void* device_;
  Description is_;
};

/// An initialised library. Thread-safe: any call from any thread; each may block.
class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;
  GpuLibrary(const GpuLibrary&) = delete;
  GpuLibrary& operator=(const GpuLibrary&) = delete;

  [[nodiscard]] virtual Result<std::uint32_t> count() const = 0;
  /// Errors: no such device; a device without a UUID (we could not record it).
  [[nodiscard]] virtual Result<Gpu> by_index(std::uint32_t index) const = 0;
  [[nodiscard]] virtual Result<Gpu> by_uuid(const std::string& uuid) const = 0;
  /// By "0" or "GPU-…", as people write it.
  [[nodiscard]] Result<Gpu> find(const std::string& index_or_uuid) const;
  [[nodiscard]] virtual std::string driver_version() const = 0;
  /// Whether its GPUs are virtual (virtual_gpu/): the fake drivers state it in their versions.
  [[nodiscard]] virtual bool emulated() const = 0;
  /// Folder of the lock files of this machine's agents: /run/lock/wattle; for virtual GPUs beside their board's file,
  /// since GPUs of two boards may have the same name.
  [[nodiscard]] std::string lock_folder() const;

  // Implementation of Gpu's methods of the same names. Absent: the library does not support it.
  [[nodiscard]] virtual GpuStatus lock_clock(const Gpu& gpu, MegaHertz clock) const = 0;
  [[nodiscard]] virtual GpuStatus reset_clock(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuStatus set_power_limit(const Gpu& gpu, Milliwatts limit) const = 0;
  [[nodiscard]] virtual GpuAnswer<Milliwatts> power_limit(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<Milliwatts> least_power_limit(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<Milliwatts> enforced_power_limit(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual bool partitioned(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<MegaHertz> sm_clock(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<MegaHertz> max_sm_clock(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<Milliwatts> power(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<Milliwatts> average_power(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<std::uint64_t> energy_counter_mj(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<std::uint32_t> utilization_percent(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<bool> limited(const Gpu& gpu) const = 0;
  [[nodiscard]] virtual GpuAnswer<std::uint32_t> compute_processes(const Gpu& gpu) const = 0;

 protected:
  GpuLibrary() = default;
};

}  // namespace wattle::node
