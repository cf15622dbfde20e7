#include "node/gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

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
  Return (*enforced_limit)(Device, unsigned int*) = nullptr;
  Return (*power_limit)(Device, unsigned int*) = nullptr;
  Return (*power_limits)(Device, unsigned int*, unsigned int*) = nullptr;
  Return (*set_power_limit)(Device, unsigned int) = nullptr;
  Return (*mig_mode)(Device, unsigned int*, unsigned int*) = nullptr;
  Return (*utilization)(Device, nvml::Utilization*) = nullptr;
  Return (*processes)(Device, unsigned int*, nvml::ProcessInfo*) = nullptr;

  /// Takes the first symbol that the library has: newer drivers rename symbols, older ones lack some.
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
    find(library, enforced_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
    find(library, power_limit, {"nvmlDeviceGetPowerManagementLimit"});
    find(library, power_limits, {"nvmlDeviceGetPowerManagementLimitConstraints"});
    find(library, set_power_limit, {"nvmlDeviceSetPowerManagementLimit"});
    find(library, mig_mode, {"nvmlDeviceGetMigMode"});
    find(library, utilization, {"nvmlDeviceGetUtilizationRates"});
    find(library, processes, {"nvmlDeviceGetComputeRunningProcesses_v3"});
  }
};

namespace {

/// Throttle reasons other than a command: idle, power cap, slowdown, sync boost, thermal, power brake.
constexpr std::uint64_t kLimited = 0x1 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80;

Device device_of(const Gpu& gpu) { return static_cast<Device>(gpu.device()); }

constexpr GpuStatus status_of(nvml::Return code) {
  switch (code) {
    case nvml::kSuccess:
      return GpuStatus::Ok;
    case nvml::kNotSupported:
    case nvml::kLibraryNotFound:
    case nvml::kFunctionNotFound:
      return GpuStatus::Absent;
    case nvml::kNoPermission:
    case nvml::kOperatingSystem:
      return GpuStatus::Forbidden;
    case nvml::kTimeout:
    case nvml::kInUse:
    case nvml::kMemory:
    case nvml::kInsufficientResources:
    case nvml::kUnknown:
      return GpuStatus::Transient;
    case nvml::kGpuIsLost:
    case nvml::kResetRequired:
    case nvml::kDriverNotLoaded:
    case nvml::kLibRmVersionMismatch:
      return GpuStatus::Gone;
    default:
      return GpuStatus::Refused;
  }
}

GpuAnswer<Milliwatts> power_field(Return (*field_values)(Device, int, nvml::FieldValue*), Device device, unsigned id) {
  if (field_values == nullptr) return {Milliwatts{}, GpuStatus::Absent};
  nvml::FieldValue field{};
  field.fieldId = id;
  Return code = field_values(device, 1, &field);
  if (code == nvml::kSuccess) code = field.nvmlReturn;
  if (code != nvml::kSuccess) return {Milliwatts{}, status_of(code)};
  return {Milliwatts(field.value.uiVal)};
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

Result<Gpu> Nvml::describe(Device device, const std::string& where) const {
  Gpu::Description is;
  std::array<char, nvml::kUuidBytes> text{};
  if (const Return code = symbols_->uuid(device, text.data(), nvml::kUuidBytes); code != nvml::kSuccess) {
    return external_failure(where, "does not report its UUID: " + error_text(code));
  }
  is.uuid = text.data();
  if (symbols_->name != nullptr && symbols_->name(device, text.data(), nvml::kNameBytes) == nvml::kSuccess) {
    is.name = text.data();
  }
  unsigned int index = 0;
  if (symbols_->index != nullptr && symbols_->index(device, &index) == nvml::kSuccess) is.index = index;
  is.clocks = supported_clocks(device);
  if (!power_field(symbols_->field_values, device, nvml::kFieldPowerInstant).ok() && !power_usage_is_instant(is.name)) {
    is.power_reading = PowerReading::OneSecondMean;
  }
  return Gpu(*this, device, std::move(is));
}

std::vector<MegaHertz> Nvml::supported_clocks(Device device) const {
  if (symbols_->memory_clocks == nullptr || symbols_->graphics_clocks == nullptr) return {};
  std::array<unsigned int, 64> memory{};
  unsigned int n = memory.size();
  if (symbols_->memory_clocks(device, &n, memory.data()) != nvml::kSuccess || n == 0) return {};
  // The highest memory clock is the one under load; only its list of SM clocks is relevant.
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

GpuStatus Nvml::lock_clock(const Gpu& gpu, MegaHertz clock) const {
  if (symbols_->set_locked == nullptr) return GpuStatus::Absent;
  const auto mhz = static_cast<unsigned int>(clock.value());
  return status_of(symbols_->set_locked(device_of(gpu), mhz, mhz));
}

GpuStatus Nvml::reset_clock(const Gpu& gpu) const {
  if (symbols_->reset_locked == nullptr) return GpuStatus::Absent;
  return status_of(symbols_->reset_locked(device_of(gpu)));
}

GpuStatus Nvml::set_power_limit(const Gpu& gpu, Milliwatts limit) const {
  if (symbols_->set_power_limit == nullptr) return GpuStatus::Absent;
  return status_of(symbols_->set_power_limit(device_of(gpu), static_cast<unsigned int>(limit.value())));
}

GpuAnswer<Milliwatts> Nvml::least_power_limit(const Gpu& gpu) const {
  if (symbols_->power_limits == nullptr) return {Milliwatts(), GpuStatus::Absent};
  unsigned int least = 0;
  unsigned int most = 0;
  const Return code = symbols_->power_limits(device_of(gpu), &least, &most);
  return {Milliwatts(least), status_of(code)};
}

bool Nvml::partitioned(const Gpu& gpu) const {
  unsigned int now = 0;
  unsigned int later = 0;
  const auto ask = symbols_->mig_mode;
  return ask != nullptr && ask(device_of(gpu), &now, &later) == nvml::kSuccess && now != 0;
}

template <typename T, typename Raw, typename Function, typename... Args>
GpuAnswer<T> Nvml::read(const Gpu& gpu, Function function, Args... args) const {
  if (function == nullptr) return {T{}, GpuStatus::Absent};
  Raw raw{};
  const Return code = function(device_of(gpu), args..., &raw);
  if (code != nvml::kSuccess) return {T{}, status_of(code)};
  if constexpr (std::is_same_v<T, MegaHertz>) {
    return {MegaHertz(static_cast<std::int32_t>(raw))};
  } else if constexpr (std::is_same_v<T, Milliwatts>) {
    return {Milliwatts(static_cast<std::int64_t>(raw))};
  } else {
    return {static_cast<T>(raw)};
  }
}

GpuAnswer<MegaHertz> Nvml::sm_clock(const Gpu& gpu) const {
  return read<MegaHertz, unsigned int>(gpu, symbols_->clock_info, int{nvml::kClockSm});
}
GpuAnswer<MegaHertz> Nvml::max_sm_clock(const Gpu& gpu) const {
  return read<MegaHertz, unsigned int>(gpu, symbols_->max_clock_info, int{nvml::kClockSm});
}

GpuAnswer<Milliwatts> Nvml::power(const Gpu& gpu) const {
  const auto instant = power_field(symbols_->field_values, device_of(gpu), nvml::kFieldPowerInstant);
  if (instant.status() != GpuStatus::Absent && instant.status() != GpuStatus::Refused) return instant;
  return read<Milliwatts, unsigned int>(gpu, symbols_->power_usage);
}
GpuAnswer<Milliwatts> Nvml::average_power(const Gpu& gpu) const {
  return power_field(symbols_->field_values, device_of(gpu), nvml::kFieldPowerAverage);
}
GpuAnswer<std::uint64_t> Nvml::energy_counter_mj(const Gpu& gpu) const {
  return read<std::uint64_t, unsigned long long>(gpu, symbols_->total_energy);
}
GpuAnswer<std::uint32_t> Nvml::utilization_percent(const Gpu& gpu) const {
  if (symbols_->utilization == nullptr) return {0, GpuStatus::Absent};
  nvml::Utilization rates{};
  const Return code = symbols_->utilization(device_of(gpu), &rates);
  return {rates.gpu, status_of(code)};
}
GpuAnswer<bool> Nvml::limited(const Gpu& gpu) const {
  const auto reasons = read<std::uint64_t, unsigned long long>(gpu, symbols_->event_reasons);
  return {(reasons.value & kLimited) != 0, reasons.failure};
}
GpuAnswer<Milliwatts> Nvml::enforced_power_limit(const Gpu& gpu) const {
  return read<Milliwatts, unsigned int>(gpu, symbols_->enforced_limit);
}
GpuAnswer<Milliwatts> Nvml::power_limit(const Gpu& gpu) const {
  return read<Milliwatts, unsigned int>(gpu, symbols_->power_limit);
}

GpuAnswer<std::uint32_t> Nvml::compute_processes(const Gpu& gpu) const {
  if (symbols_->processes == nullptr) return {0, GpuStatus::Absent};
  unsigned int n = 0;
  const Return code = symbols_->processes(device_of(gpu), &n, nullptr);
  return {n, status_of(code == nvml::kInsufficientSize ? nvml::kSuccess : code)};
}

}  // namespace wattle::node
