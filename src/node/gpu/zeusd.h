#pragma once
// Zeus' daemon zeusd (ml.energy/zeus/zeusd), which may set clocks when an agent without root may not: HTTP on a Unix
// domain socket. Reading needs no permission and uses NVML.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "node/gpu/gpu.h"

namespace wattle::node {

/// Supports both forms of its API: with the GPU in the path and a JSON body (up to 0.2), or everything in the query
/// (daemons that answer GET /discover). The daemon numbers GPUs as NVML does, so their number must be equal. A daemon
/// with JWT authentication gets the token in the environment variable ZEUSD_TOKEN, like from Zeus' own client.
class Zeusd final : public GpuLibrary {
 public:
  /// Errors: nothing answers at `socket`; the daemon does not permit setting GPUs, or needs another token; it has other
  /// GPUs.
  [[nodiscard]] static Result<std::shared_ptr<const Zeusd>> open(const std::string& socket,
                                                                 std::shared_ptr<const GpuLibrary> reading);

  [[nodiscard]] Result<std::uint32_t> count() const override { return reading_->count(); }
  [[nodiscard]] Result<Gpu> by_index(std::uint32_t index) const override { return mine(reading_->by_index(index)); }
  [[nodiscard]] Result<Gpu> by_uuid(const std::string& uuid) const override { return mine(reading_->by_uuid(uuid)); }
  [[nodiscard]] std::string driver_version() const override { return reading_->driver_version(); }
  [[nodiscard]] bool emulated() const override { return reading_->emulated(); }

  [[nodiscard]] GpuStatus lock_clock(const Gpu& gpu, MegaHertz clock) const override;
  [[nodiscard]] GpuStatus reset_clock(const Gpu& gpu) const override;
  [[nodiscard]] GpuStatus set_power_limit(const Gpu& gpu, Milliwatts limit) const override;
  [[nodiscard]] GpuAnswer<Milliwatts> power_limit(const Gpu& gpu) const override { return reading_->power_limit(gpu); }
  [[nodiscard]] GpuAnswer<Milliwatts> least_power_limit(const Gpu& gpu) const override {
    return reading_->least_power_limit(gpu);
  }
  [[nodiscard]] GpuAnswer<Milliwatts> enforced_power_limit(const Gpu& gpu) const override {
    return reading_->enforced_power_limit(gpu);
  }
  [[nodiscard]] bool partitioned(const Gpu& gpu) const override { return reading_->partitioned(gpu); }
  [[nodiscard]] GpuAnswer<MegaHertz> sm_clock(const Gpu& gpu) const override { return reading_->sm_clock(gpu); }
  [[nodiscard]] GpuAnswer<MegaHertz> max_sm_clock(const Gpu& gpu) const override { return reading_->max_sm_clock(gpu); }
  [[nodiscard]] GpuAnswer<Milliwatts> power(const Gpu& gpu) const override { return reading_->power(gpu); }
  [[nodiscard]] GpuAnswer<Milliwatts> average_power(const Gpu& gpu) const override {
    return reading_->average_power(gpu);
  }
  [[nodiscard]] GpuAnswer<std::uint64_t> energy_counter_mj(const Gpu& gpu) const override {
    return reading_->energy_counter_mj(gpu);
  }
  [[nodiscard]] GpuAnswer<std::uint32_t> utilization_percent(const Gpu& gpu) const override {
    return reading_->utilization_percent(gpu);
  }
  [[nodiscard]] GpuAnswer<bool> limited(const Gpu& gpu) const override { return reading_->limited(gpu); }
  [[nodiscard]] GpuAnswer<std::uint32_t> compute_processes(const Gpu& gpu) const override {
    return reading_->compute_processes(gpu);
  }

 private:
  enum class Form : std::uint8_t { PathAndBody, Query };
  struct Answer {
    int status = 0;  ///< 0: no answer
    std::string text;
  };
  Zeusd(std::string socket, std::shared_ptr<const GpuLibrary> reading);
  [[nodiscard]] Result<Gpu> mine(Result<Gpu> gpu) const;
  [[nodiscard]] Answer ask(const std::string& method, const std::string& target, const std::string& body) const;
  using Values = std::vector<std::pair<const char*, std::int64_t>>;
  [[nodiscard]] Answer command(Form form, const Gpu& gpu, const std::string& what, const Values& values) const;
  [[nodiscard]] GpuStatus set(const Gpu& gpu, const std::string& what, const Values& values) const;

  std::string socket_;
  std::string token_;
  std::shared_ptr<const GpuLibrary> reading_;
  Form form_ = Form::Query;
};

}  // namespace wattle::node
