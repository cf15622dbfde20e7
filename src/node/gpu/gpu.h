#pragma once
// GPUs through whatever library knows them: NVML, AMD SMI, or NVML beside a daemon that may do what we may not.
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

/// How a wished clock had to be bent to what the device offers. Never silent: counted by direction.
enum class Clamp : std::uint8_t { None, Up, Down };

/// One GPU. A small value; valid while its library lives. Calls may block for as long as the driver likes, so never
/// make them on a thread that decides.
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
  /// Ascending; empty when the device would not say, and then nothing is snapped.
  [[nodiscard]] const std::vector<MegaHertz>& clocks() const { return is_.clocks; }

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
  [[nodiscard]] PowerReading power_reading() const { return is_.power_reading; }
  [[nodiscard]] GpuAnswer<Milliwatts> average_power() const;
  /// Millijoules since the driver was loaded; refreshed every 20 to 100 ms (see EnergyMeter).
  [[nodiscard]] GpuAnswer<std::uint64_t> energy_counter_mj() const;
  [[nodiscard]] GpuAnswer<std::uint32_t> utilization_percent() const;
  /// It has reasons of its own for a clock below the lock: it idles, or is capped, hot, or short of power.
  [[nodiscard]] GpuAnswer<bool> limited() const;
  [[nodiscard]] GpuAnswer<Milliwatts> enforced_power_limit() const;
  /// Processes with a compute context. Their number is all we ask.
  [[nodiscard]] GpuAnswer<std::uint32_t> compute_processes() const;
  /// No work and no compute process, as far as the device says; anything unknown counts as busy.
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
  /// Errors: no such device; a device that does not tell its UUID (we could not remember it).
  [[nodiscard]] virtual Result<Gpu> by_index(std::uint32_t index) const = 0;
  [[nodiscard]] virtual Result<Gpu> by_uuid(const std::string& uuid) const = 0;
  /// "0" or "GPU-…": what a person writes.
  [[nodiscard]] Result<Gpu> find(const std::string& index_or_uuid) const;
  [[nodiscard]] virtual std::string driver_version() const = 0;
  /// The GPUs behind it are virtual ones (virtual_gpu/): the fake drivers say so in their versions.
  [[nodiscard]] virtual bool emulated() const = 0;
  /// Folder in which agents of this machine say which GPUs they have: /run/lock/wattle; of virtual GPUs beside their
  /// board, since those of two boards may have one name.
  [[nodiscard]] std::string lock_folder() const;

  // What Gpu's methods of the same names ask. What a library cannot do is Absent.
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
