#include "node/gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

namespace wattle::node {

using nvml::Device;
using nvml::Return;

/// Null where the library lacks the symbol.
struct Nvml::Symbols {
  Return (*init)() = nullptr;
  Return (*shutdown)() = nullptr;
  const char* (*error_string)(Return) = nullptr;
  Return (*driver_version)(char*, unsigned int) = nullptr;
  Return (*count)(unsigned int*) = nullptr;
  Return (*by_index)(unsigned int, Device*) = nullptr;
  Return (*by_uuid)(const char*, Device*) = nullptr;
  Return (*uuid)(Device, char*, unsigned int) = nullptr;
  Return (*name)(Device, char*, unsigned int) = nullptr;
  Return (*index)(Device, unsigned int*) = nullptr;
  Return (*set_locked)(Device, unsigned int, unsigned int) = nullptr;
  Return (*reset_locked)(Device) = nullptr;
  Return (*clock_info)(Device, int, unsigned int*) = nullptr;
  Return (*max_clock_info)(Device, int, unsigned int*) = nullptr;
  Return (*memory_clocks)(Device, unsigned int*, unsigned int*) = nullptr;
  Return (*graphics_clocks)(Device, unsigned int, unsigned int*, unsigned int*) = nullptr;
  Return (*power_usage)(Device, unsigned int*) = nullptr;
  Return (*total_energy)(Device, unsigned long long*) = nullptr;
  Return (*field_values)(Device, int, nvml::FieldValue*) = nullptr;
  Return (*event_reasons)(Device, unsigned long long*) = nullptr;
  Return (*persistence)(Device, int*) = nullptr;
  Return (*enforced_limit)(Device, unsigned int*) = nullptr;
  Return (*power_limit)(Device, unsigned int*) = nullptr;
  Return (*power_limits)(Device, unsigned int*, unsigned int*) = nullptr;
  Return (*set_power_limit)(Device, unsigned int) = nullptr;
  Return (*mig_mode)(Device, unsigned int*, unsigned int*) = nullptr;
  Return (*utilization)(Device, nvml::Utilization*) = nullptr;
  Return (*temperature)(Device, int, unsigned int*) = nullptr;
  Return (*processes)(Device, unsigned int*, nvml::ProcessInfo*) = nullptr;

  /// Takes the first of the names the library has: newer drivers rename, older ones lack.
  template <typename Function>
  static void find(void* library, Function& out, std::initializer_list<const char*> names) {
    for (const char* symbol : names) {
      if (void* at = dlsym(library, symbol)) {
        out = reinterpret_cast<Function>(at);
        return;
      }
    }
  }

  void load(void* library) {
    find(library, init, {"nvmlInit_v2", "nvmlInit"});
    find(library, shutdown, {"nvmlShutdown"});
    find(library, error_string, {"nvmlErrorString"});
    find(library, driver_version, {"nvmlSystemGetDriverVersion"});
    find(library, count, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
    find(library, by_index, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
    find(library, by_uuid, {"nvmlDeviceGetHandleByUUID"});
    find(library, uuid, {"nvmlDeviceGetUUID"});
    find(library, name, {"nvmlDeviceGetName"});
    find(library, index, {"nvmlDeviceGetIndex"});
    find(library, set_locked, {"nvmlDeviceSetGpuLockedClocks"});
    find(library, reset_locked, {"nvmlDeviceResetGpuLockedClocks"});
    find(library, clock_info, {"nvmlDeviceGetClockInfo"});
    find(library, max_clock_info, {"nvmlDeviceGetMaxClockInfo"});
    find(library, memory_clocks, {"nvmlDeviceGetSupportedMemoryClocks"});
    find(library, graphics_clocks, {"nvmlDeviceGetSupportedGraphicsClocks"});
    find(library, power_usage, {"nvmlDeviceGetPowerUsage"});
    find(library, total_energy, {"nvmlDeviceGetTotalEnergyConsumption"});
    find(library, field_values, {"nvmlDeviceGetFieldValues"});
    find(library, event_reasons,
         {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
    find(library, persistence, {"nvmlDeviceGetPersistenceMode"});
    find(library, enforced_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
    find(library, power_limit, {"nvmlDeviceGetPowerManagementLimit"});
    find(library, power_limits, {"nvmlDeviceGetPowerManagementLimitConstraints"});
    find(library, set_power_limit, {"nvmlDeviceSetPowerManagementLimit"});
    find(library, mig_mode, {"nvmlDeviceGetMigMode"});
    find(library, utilization, {"nvmlDeviceGetUtilizationRates"});
    find(library, temperature, {"nvmlDeviceGetTemperature"});
    find(library, processes, {"nvmlDeviceGetComputeRunningProcesses_v3"});
  }
};

namespace {

GpuAnswer<Milliwatts> power_field(Return (*field_values)(Device, int, nvml::FieldValue*), Device device, unsigned id) {
  if (field_values == nullptr) return {Milliwatts{}, nvml::kFunctionNotFound};
  nvml::FieldValue field{};
  field.fieldId = id;
  Return code = field_values(device, 1, &field);
  if (code == nvml::kSuccess) code = field.nvmlReturn;
  if (code != nvml::kSuccess) return {Milliwatts{}, code};
  return {Milliwatts(field.value.uiVal), code};
}

/// GetPowerUsage is a mean over a second "on Ampere (except GA100) or newer GPUs" (NVML's reference): GA100 are these.
bool power_usage_is_instant(const std::string& name) {
  return name.find("A100") != std::string::npos || name.find("A800") != std::string::npos || name.ends_with("A30");
}

}  // namespace

Nvml::Nvml() : symbols_(std::make_unique<Symbols>()) {}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  if (symbols_->shutdown != nullptr) symbols_->shutdown();
  dlclose(library_);
}

Result<std::shared_ptr<const Nvml>> Nvml::open(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return external_failure(library, std::string("no NVML library: ") + (why == nullptr ? "" : why));
  }
  std::shared_ptr<Nvml> self(new Nvml);
  self->symbols_->load(handle);
  const Symbols& s = *self->symbols_;
  if (s.init == nullptr || s.by_index == nullptr || s.by_uuid == nullptr || s.uuid == nullptr || s.count == nullptr) {
    dlclose(handle);
    return external_failure(library, "lacks NVML's init, count, handle or UUID calls");
  }
  if (const Return code = s.init(); code != nvml::kSuccess) {
    std::string why = self->error_text(code);
    dlclose(handle);
    return external_failure(library, "NVML does not initialise: " + why);
  }
  self->library_ = handle;
  return std::shared_ptr<const Nvml>(std::move(self));
}

std::string Nvml::error_text(Return code) const {
  const char* text = symbols_->error_string == nullptr ? nullptr : symbols_->error_string(code);
  return std::string(text == nullptr ? "error" : text) + " (" + std::to_string(code) + ")";
}

bool Nvml::can_lock() const { return symbols_->set_locked != nullptr && symbols_->reset_locked != nullptr; }

std::string Nvml::lock_folder() const {
  const char* board = emulated() ? std::getenv("WATTLE_FAKE_NVML") : nullptr;
  if (board == nullptr) return "/run/lock/wattle";
  const std::string_view spec(board);
  return std::string(spec.substr(0, spec.find(','))) + ".gpu-locks";
}

Result<std::uint32_t> Nvml::count() const {
  unsigned int n = 0;
  const Return code = symbols_->count(&n);
  if (code != nvml::kSuccess) return external_failure("NVML device count", error_text(code));
  return n;
}

Result<Gpu> Nvml::by_index(std::uint32_t index) const {
  Device device = nullptr;
  const std::string where = "GPU " + std::to_string(index);
  const Return code = symbols_->by_index(index, &device);
  if (code == nvml::kInvalidArgument || code == nvml::kNotFound) return bad_input(where, "there is no such GPU here");
  if (code != nvml::kSuccess) return external_failure(where, error_text(code));
  return describe(device, where);
}

Result<Gpu> Nvml::by_uuid(const std::string& uuid) const {
  Device device = nullptr;
  const Return code = symbols_->by_uuid(uuid.c_str(), &device);
  if (code == nvml::kInvalidArgument || code == nvml::kNotFound) return bad_input(uuid, "there is no such GPU here");
  if (code != nvml::kSuccess) return external_failure(uuid, error_text(code));
  return describe(device, uuid);
}

Result<Gpu> Nvml::find(const std::string& index_or_uuid) const {
  std::uint32_t index = 0;
  const char* end = index_or_uuid.data() + index_or_uuid.size();
  const auto parsed = std::from_chars(index_or_uuid.data(), end, index);
  return parsed.ec == std::errc() && parsed.ptr == end ? by_index(index) : by_uuid(index_or_uuid);
}

Result<Gpu> Nvml::describe(Device device, const std::string& where) const {
  Gpu gpu;
  gpu.nvml_ = this;
  gpu.device_ = device;
  std::array<char, nvml::kUuidBytes> text{};
  if (const Return code = symbols_->uuid(device, text.data(), nvml::kUuidBytes); code != nvml::kSuccess) {
    return external_failure(where, "does not tell its UUID: " + error_text(code));
  }
  gpu.uuid_ = text.data();
  if (symbols_->name != nullptr && symbols_->name(device, text.data(), nvml::kNameBytes) == nvml::kSuccess) {
    gpu.name_ = text.data();
  }
  unsigned int index = 0;
  if (symbols_->index != nullptr && symbols_->index(device, &index) == nvml::kSuccess) gpu.index_ = index;
  gpu.clocks_ = supported_clocks(device);
  if (!power_field(symbols_->field_values, device, nvml::kFieldPowerInstant).ok() &&
      !power_usage_is_instant(gpu.name_)) {
    gpu.power_reading_ = PowerReading::OneSecondMean;
  }
  return gpu;
}

std::vector<MegaHertz> Nvml::supported_clocks(Device device) const {
  if (symbols_->memory_clocks == nullptr || symbols_->graphics_clocks == nullptr) return {};
  std::array<unsigned int, 64> memory{};
  unsigned int n = memory.size();
  if (symbols_->memory_clocks(device, &n, memory.data()) != nvml::kSuccess || n == 0) return {};
  // The top memory clock is the one under load; its list of SM clocks is the one that counts.
  const unsigned int top = *std::max_element(memory.begin(), memory.begin() + std::min<std::size_t>(n, memory.size()));
  std::vector<unsigned int> graphics(512);
  n = static_cast<unsigned int>(graphics.size());
  Return code = symbols_->graphics_clocks(device, top, &n, graphics.data());
  if (code == nvml::kInsufficientSize && n < 65536) {
    graphics.resize(n);
    code = symbols_->graphics_clocks(device, top, &n, graphics.data());
  }
  if (code != nvml::kSuccess || n > graphics.size()) return {};
  std::vector<MegaHertz> clocks;
  for (unsigned int i = 0; i < n; ++i) clocks.emplace_back(static_cast<std::int32_t>(graphics[i]));
  std::ranges::sort(clocks);
  return clocks;
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};
  if (symbols_->driver_version == nullptr || symbols_->driver_version(text.data(), text.size()) != nvml::kSuccess)
    return "";
  return text.data();
}

Gpu::Snapped Gpu::snap(MegaHertz wish) const {
  if (clocks_.empty()) return {wish, Clamp::None};
  if (wish < clocks_.front()) return {clocks_.front(), Clamp::Up};
  if (wish > clocks_.back()) return {clocks_.back(), Clamp::Down};
  return {*std::prev(std::ranges::upper_bound(clocks_, wish)), Clamp::None};
}

GpuStatus Gpu::lock_clock(MegaHertz clock) const {
  if (nvml_->symbols_->set_locked == nullptr) return GpuStatus::Absent;
  const auto mhz = static_cast<unsigned int>(clock.value());
  return status_of(nvml_->symbols_->set_locked(device_, mhz, mhz));
}

GpuStatus Gpu::reset_clock() const {
  if (nvml_->symbols_->reset_locked == nullptr) return GpuStatus::Absent;
  return status_of(nvml_->symbols_->reset_locked(device_));
}

GpuStatus Gpu::set_power_limit(Milliwatts limit) const {
  if (nvml_->symbols_->set_power_limit == nullptr) return GpuStatus::Absent;
  return status_of(nvml_->symbols_->set_power_limit(device_, static_cast<unsigned int>(limit.value())));
}

GpuAnswer<Milliwatts> Gpu::least_power_limit() const {
  if (nvml_->symbols_->power_limits == nullptr) return {Milliwatts(), nvml::kFunctionNotFound};
  unsigned int least = 0;
  unsigned int most = 0;
  const Return code = nvml_->symbols_->power_limits(device_, &least, &most);
  return {Milliwatts(least), code};
}

bool Gpu::partitioned() const {
  unsigned int now = 0;
  unsigned int later = 0;
  const auto ask = nvml_->symbols_->mig_mode;
  return ask != nullptr && ask(device_, &now, &later) == nvml::kSuccess && now != 0;
}

template <typename T, typename Raw, typename Function, typename... Args>
GpuAnswer<T> Gpu::read(Function function, Args... args) const {
  if (function == nullptr) return {T{}, nvml::kFunctionNotFound};
  Raw raw{};
  const Return code = function(device_, args..., &raw);
  if (code != nvml::kSuccess) return {T{}, code};
  if constexpr (std::is_same_v<T, MegaHertz>) {
    return {MegaHertz(static_cast<std::int32_t>(raw)), code};
  } else if constexpr (std::is_same_v<T, Milliwatts>) {
    return {Milliwatts(static_cast<std::int64_t>(raw)), code};
  } else {
    return {static_cast<T>(raw), code};
  }
}

GpuAnswer<MegaHertz> Gpu::sm_clock() const {
  return read<MegaHertz, unsigned int>(nvml_->symbols_->clock_info, int{nvml::kClockSm});
}
GpuAnswer<MegaHertz> Gpu::max_sm_clock() const {
  return read<MegaHertz, unsigned int>(nvml_->symbols_->max_clock_info, int{nvml::kClockSm});
}

GpuAnswer<Milliwatts> Gpu::power() const {
  const auto instant = power_field(nvml_->symbols_->field_values, device_, nvml::kFieldPowerInstant);
  if (instant.status() != GpuStatus::Absent && instant.status() != GpuStatus::Refused) return instant;
  return read<Milliwatts, unsigned int>(nvml_->symbols_->power_usage);
}
GpuAnswer<Milliwatts> Gpu::average_power() const {
  return power_field(nvml_->symbols_->field_values, device_, nvml::kFieldPowerAverage);
}
GpuAnswer<std::uint64_t> Gpu::energy_counter_mj() const {
  return read<std::uint64_t, unsigned long long>(nvml_->symbols_->total_energy);
}
GpuAnswer<std::uint32_t> Gpu::utilization_percent() const {
  if (nvml_->symbols_->utilization == nullptr) return {0, nvml::kFunctionNotFound};
  nvml::Utilization rates{};
  const Return code = nvml_->symbols_->utilization(device_, &rates);
  return {rates.gpu, code};
}
GpuAnswer<std::uint64_t> Gpu::clock_event_reasons() const {
  return read<std::uint64_t, unsigned long long>(nvml_->symbols_->event_reasons);
}
GpuAnswer<std::uint32_t> Gpu::temperature_celsius() const {
  return read<std::uint32_t, unsigned int>(nvml_->symbols_->temperature, 0);
}
GpuAnswer<Milliwatts> Gpu::enforced_power_limit() const {
  return read<Milliwatts, unsigned int>(nvml_->symbols_->enforced_limit);
}
GpuAnswer<Milliwatts> Gpu::power_limit() const { return read<Milliwatts, unsigned int>(nvml_->symbols_->power_limit); }
GpuAnswer<bool> Gpu::persistence_mode() const { return read<bool, int>(nvml_->symbols_->persistence); }

GpuAnswer<std::uint32_t> Gpu::compute_processes() const {
  if (nvml_->symbols_->processes == nullptr) return {0, nvml::kFunctionNotFound};
  unsigned int n = 0;
  const Return code = nvml_->symbols_->processes(device_, &n, nullptr);
  return {n, code == nvml::kInsufficientSize ? nvml::kSuccess : code};
}

bool Gpu::idle() const {
  const auto busy = utilization_percent();
  const auto processes = compute_processes();
  const bool none_known = processes.status() == GpuStatus::Absent || (processes.ok() && processes.value == 0);
  return busy.ok() && busy.value == 0 && none_known;
}

}  // namespace wattle::node
