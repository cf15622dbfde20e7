#pragma once
// GPUs through AMD SMI, versions 24.7 to 26 (ROCm 6.3 to 7): opened at run time; any symbol may be missing and any call
// may fail.
#include <memory>
#include <string>
#include <vector>

#include "node/gpu/amd_smi_abi.h"
#include "node/gpu/gpu.h"

namespace wattle::node {

/// A clock is locked by the limits of the graphics clock's range (including the lower one if the GPU takes it) and
/// released by the performance level `auto`, which frees all of its clock domains. The library reports the limits that
/// are set as the range: a GPU is described correctly only while nothing is locked on it. With a library of another
/// version, whose structures are unknown, nothing is set and no power is read.
class AmdSmi final : public GpuLibrary {
 public:
  /// Opens and initialises; empty: the installed one. Errors: library not found, no driver, a required symbol missing.
  [[nodiscard]] static Result<std::shared_ptr<const AmdSmi>> open(const std::string& library = "");
  ~AmdSmi() override;

  [[nodiscard]] Result<std::uint32_t> count() const override;
  [[nodiscard]] Result<Gpu> by_index(std::uint32_t index) const override;
  [[nodiscard]] Result<Gpu> by_uuid(const std::string& uuid) const override;
  [[nodiscard]] std::string driver_version() const override;
  [[nodiscard]] bool emulated() const override { return build_ == amd_smi::kFakeBuild; }
  /// A version whose structures are known.
  [[nodiscard]] bool known() const { return known_; }

  [[nodiscard]] GpuStatus lock_clock(const Gpu& gpu, MegaHertz clock) const override;
  [[nodiscard]] GpuStatus reset_clock(const Gpu& gpu) const override;
  [[nodiscard]] GpuStatus set_power_limit(const Gpu& gpu, Milliwatts limit) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> power_limit(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> least_power_limit(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> enforced_power_limit(const Gpu& gpu) const override { return power_limit(gpu); }
  /// A compute partition other than SPX: a clock would apply to every partition.
  [[nodiscard]] bool partitioned(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<MegaHertz> sm_clock(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<MegaHertz> max_sm_clock(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> power(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> average_power(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<std::uint64_t> energy_counter_mj(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<std::uint32_t> utilization_percent(const Gpu& gpu) const override;
  /// Unknown: a clock below the lock is never attributed to another process.
  [[nodiscard]] GpuAnswer<bool> limited(const Gpu&) const override { return {false, GpuStatus::Absent}; }
  [[nodiscard]] GpuAnswer<std::uint32_t> compute_processes(const Gpu&) const override { return {0, GpuStatus::Absent}; }

 private:
  struct Symbols;
  AmdSmi();
  [[nodiscard]] Result<void> find_gpus(const std::string& where);
  void find_version();
  [[nodiscard]] GpuAnswer<amd_smi::ClockInfo> clocks_of(amd_smi::Handle gpu) const;
  [[nodiscard]] GpuAnswer<amd_smi::PowerCapInfo> caps_of(amd_smi::Handle gpu) const;
  [[nodiscard]] GpuAnswer<Milliwatts> watts_of(amd_smi::Handle gpu, bool average) const;
  [[nodiscard]] Result<std::string> uuid_of(amd_smi::Handle gpu, const std::string& where) const;

  void* library_ = nullptr;
  std::unique_ptr<Symbols> symbols_;
  std::vector<amd_smi::Handle> gpus_;
  std::uint32_t abi_ = 0;
  bool known_ = false;
  std::string version_;
  std::string build_;
};

}  // namespace wattle::node
