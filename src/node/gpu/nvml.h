#pragma once
// GPUs through NVML: the library is opened at run time, any symbol may be missing, any call may fail.
#include <memory>
#include <string>
#include <vector>

#include "node/gpu/gpu.h"
#include "node/gpu/nvml_abi.h"

namespace wattle::node {

/// An initialised NVML library. Thread-safe as NVML is: any call from any thread.
class Nvml final : public GpuLibrary {
 public:
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  /// Opens and initialises. Errors: library not found, no driver, a required symbol missing.
  [[nodiscard]] static Result<std::shared_ptr<const Nvml>> open(const std::string& library = kLibrary);
  ~Nvml() override;

  [[nodiscard]] Result<std::uint32_t> count() const override;
  [[nodiscard]] Result<Gpu> by_index(std::uint32_t index) const override;
  [[nodiscard]] Result<Gpu> by_uuid(const std::string& uuid) const override;
  [[nodiscard]] std::string driver_version() const override;
  [[nodiscard]] bool emulated() const override { return driver_version().ends_with(nvml::kFakeDriver); }
  [[nodiscard]] std::string error_text(nvml::Return code) const;
  /// The symbol for locking clocks is there (the device may still say no).

  [[nodiscard]] GpuStatus lock_clock(const Gpu& gpu, MegaHertz clock) const override;
  [[nodiscard]] GpuStatus reset_clock(const Gpu& gpu) const override;
  [[nodiscard]] GpuStatus set_power_limit(const Gpu& gpu, Milliwatts limit) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> power_limit(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> least_power_limit(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> enforced_power_limit(const Gpu& gpu) const override;
  [[nodiscard]] bool partitioned(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<MegaHertz> sm_clock(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<MegaHertz> max_sm_clock(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> power(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> average_power(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<std::uint64_t> energy_counter_mj(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<std::uint32_t> utilization_percent(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<bool> limited(const Gpu& gpu) const override;
  [[nodiscard]] GpuAnswer<std::uint32_t> compute_processes(const Gpu& gpu) const override;

 private:
  struct Symbols;
  Nvml();
  template <typename T, typename Raw, typename Function, typename... Args>
  [[nodiscard]] GpuAnswer<T> read(const Gpu& gpu, Function function, Args... args) const;
  [[nodiscard]] Result<Gpu> describe(nvml::Device device, const std::string& where) const;
  [[nodiscard]] std::vector<MegaHertz> supported_clocks(nvml::Device device) const;

  void* library_ = nullptr;
  std::unique_ptr<Symbols> symbols_;
};

}  // namespace wattle::node
