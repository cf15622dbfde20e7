#include "node/gpu/gpu.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string_view>

namespace wattle::node {

GpuStatus Gpu::lock_clock(MegaHertz clock) const { return library_->lock_clock(*this, clock); }
GpuStatus Gpu::reset_clock() const { return library_->reset_clock(*this); }
GpuStatus Gpu::set_power_limit(Milliwatts limit) const { return library_->set_power_limit(*this, limit); }
GpuAnswer<Milliwatts> Gpu::power_limit() const { return library_->power_limit(*this); }
GpuAnswer<Milliwatts> Gpu::least_power_limit() const { return library_->least_power_limit(*this); }
GpuAnswer<Milliwatts> Gpu::enforced_power_limit() const { return library_->enforced_power_limit(*this); }
bool Gpu::partitioned() const { return library_->partitioned(*this); }
GpuAnswer<MegaHertz> Gpu::sm_clock() const { return library_->sm_clock(*this); }
GpuAnswer<MegaHertz> Gpu::max_sm_clock() const { return library_->max_sm_clock(*this); }
GpuAnswer<Milliwatts> Gpu::power() const { return library_->power(*this); }
GpuAnswer<Milliwatts> Gpu::average_power() const { return library_->average_power(*this); }
GpuAnswer<std::uint64_t> Gpu::energy_counter_mj() const { return library_->energy_counter_mj(*this); }
GpuAnswer<std::uint32_t> Gpu::utilization_percent() const { return library_->utilization_percent(*this); }
GpuAnswer<bool> Gpu::limited() const { return library_->limited(*this); }
GpuAnswer<std::uint32_t> Gpu::compute_processes() const { return library_->compute_processes(*this); }

Gpu::Snapped Gpu::snap(MegaHertz wish) const {
  const auto& clocks = is_.clocks;
  if (clocks.empty()) return {wish, Clamp::None};
  if (wish < clocks.front()) return {clocks.front(), Clamp::Up};
  if (wish > clocks.back()) return {clocks.back(), Clamp::Down};
  return {*std::prev(std::ranges::upper_bound(clocks, wish)), Clamp::None};
}

bool Gpu::idle() const {
  const auto busy = utilization_percent();
  const auto processes = compute_processes();
  const bool none_known = processes.status() == GpuStatus::Absent || (processes.ok() && processes.value == 0);
  return busy.ok() && busy.value == 0 && none_known;
}

Result<Gpu> GpuLibrary::find(const std::string& index_or_uuid) const {
  std::uint32_t index = 0;
  const char* end = index_or_uuid.data() + index_or_uuid.size();
  const auto parsed = std::from_chars(index_or_uuid.data(), end, index);
  return parsed.ec == std::errc() && parsed.ptr == end ? by_index(index) : by_uuid(index_or_uuid);
}

std::string GpuLibrary::lock_folder() const {
  const char* board = emulated() ? std::getenv("WATTLE_FAKE_NVML") : nullptr;
  if (board == nullptr) return "/run/lock/wattle";
  const std::string_view spec(board);
  return std::string(spec.substr(0, spec.find(','))) + ".gpu-locks";
}

}  // namespace wattle::node
