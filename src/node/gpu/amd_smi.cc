#include "node/gpu/amd_smi.h"
#include "net/log.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <string_view>

namespace wattle::node {

using amd_smi::Handle;
using amd_smi::Status;

/// Null where the library lacks the symbol.
struct AmdSmi::Symbols {
  Status (*init)(std::uint64_t) = nullptr;
  Status (*shut_down)() = nullptr;
  Status (*lib_version)(void*) = nullptr;
  Status (*sockets)(std::uint32_t*, Handle*) = nullptr;
  Status (*processors)(Handle, std::uint32_t*, Handle*) = nullptr;
  Status (*uuid)(Handle, unsigned int*, char*) = nullptr;
  Status (*asic_info)(Handle, void*) = nullptr;
  Status (*partition)(Handle, char*, std::uint32_t) = nullptr;
  Status (*clock_info)(Handle, std::uint32_t, void*) = nullptr;
  Status (*set_clock_limit)(Handle, std::uint32_t, std::uint32_t, std::uint64_t) = nullptr;
  Status (*set_perf_level)(Handle, std::uint32_t) = nullptr;
  Status (*power_info)(Handle, void*) = nullptr;
  Status (*energy)(Handle, std::uint64_t*, float*, std::uint64_t*) = nullptr;
  Status (*power_cap_info)(Handle, std::uint32_t, void*) = nullptr;
  Status (*set_power_cap)(Handle, std::uint32_t, std::uint64_t) = nullptr;
  Status (*activity)(Handle, void*) = nullptr;

  void load(void* library) {
    const auto find = [library](auto& out, const char* name) {
      if (void* at = dlsym(library, name)) out = reinterpret_cast<std::remove_reference_t<decltype(out)>>(at);
    };
    find(init, "amdsmi_init");
    find(shut_down, "amdsmi_shut_down");
    find(lib_version, "amdsmi_get_lib_version");
    find(sockets, "amdsmi_get_socket_handles");
    find(processors, "amdsmi_get_processor_handles");
    find(uuid, "amdsmi_get_gpu_device_uuid");
    find(asic_info, "amdsmi_get_gpu_asic_info");
    find(partition, "amdsmi_get_gpu_compute_partition");
    find(clock_info, "amdsmi_get_clock_info");
    find(set_clock_limit, "amdsmi_set_gpu_clk_limit");
    find(set_perf_level, "amdsmi_set_gpu_perf_level");
    find(power_info, "amdsmi_get_power_info");
    find(energy, "amdsmi_get_energy_count");
    find(power_cap_info, "amdsmi_get_power_cap_info");
    find(set_power_cap, "amdsmi_set_power_cap");
    find(activity, "amdsmi_get_gpu_activity");
  }
};

namespace {

constexpr std::array kInstalled = {"/opt/rocm/lib/libamd_smi.so", "libamd_smi.so.26", "libamd_smi.so.25",
                                   "libamd_smi.so.24", "libamd_smi.so"};
constexpr std::uint32_t kLeast24 = 7;  ///< of ABI 24: ROCm 6.3, from where on clock limits can be set

GpuStatus status_of(Status code) {
  switch (code) {
    case amd_smi::kSuccess:
      return GpuStatus::Ok;
    case amd_smi::kNotSupported:
    case amd_smi::kNotYetImplemented:
    case amd_smi::kSettingUnavailable:
      return GpuStatus::Absent;
    case amd_smi::kNoPermission:
      return GpuStatus::Forbidden;
    case amd_smi::kTimeout:
    case amd_smi::kRetry:
    case amd_smi::kInterrupt:
    case amd_smi::kIo:
    case amd_smi::kBusy:
    case amd_smi::kUnknown:
      return GpuStatus::Transient;
    case amd_smi::kDrmError:
    case amd_smi::kNotFound:
    case amd_smi::kNotInitialised:
    case amd_smi::kDriverNotLoaded:
      return GpuStatus::Gone;
    default:
      return GpuStatus::Refused;
  }
}

/// The library's placeholder for an absent number.
bool missing(std::uint32_t value) { return value == 0xFFFF || value == 0xFFFFFFFF; }

Milliwatts from_microwatts(std::uint64_t power) { return Milliwatts(static_cast<std::int64_t>(power / 1000)); }
MegaHertz mhz(std::uint32_t clock) { return MegaHertz(static_cast<std::int32_t>(clock)); }

}  // namespace

AmdSmi::AmdSmi() : symbols_(std::make_unique<Symbols>()) {}

AmdSmi::~AmdSmi() {
  if (library_ == nullptr) return;
  if (symbols_->shut_down != nullptr) symbols_->shut_down();
  dlclose(library_);
}

Result<std::shared_ptr<const AmdSmi>> AmdSmi::open(const std::string& library) {
  void* handle = nullptr;
  std::string name = library;
  if (library.empty()) {
    for (const char* installed : kInstalled) {
      name = installed;
      if ((handle = dlopen(installed, RTLD_NOW | RTLD_LOCAL)) != nullptr) break;
    }
  } else {
    handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) {
    const char* why = dlerror();
    return external_failure(name, std::string("no AMD SMI library: ") + (why == nullptr ? "" : why));
  }
  std::shared_ptr<AmdSmi> self(new AmdSmi);
  self->symbols_->load(handle);
  const Symbols& s = *self->symbols_;
  if (s.init == nullptr || s.lib_version == nullptr || s.sockets == nullptr || s.processors == nullptr ||
      s.uuid == nullptr) {
    dlclose(handle);
    return external_failure(name, "lacks AMD SMI's init, version, handle or UUID calls");
  }
  if (const Status code = s.init(amd_smi::kInitGpus); code != amd_smi::kSuccess) {
    dlclose(handle);
    return external_failure(name, fmt::format("AMD SMI does not initialise: status {}; is amdgpu loaded?", code));
  }
  self->library_ = handle;
  self->find_version();
  if (auto found = self->find_gpus(name); !found) return std::unexpected(found.error());
  return std::shared_ptr<const AmdSmi>(std::move(self));
}

void AmdSmi::find_version() {
  amd_smi::Version version{};
  if (symbols_->lib_version(&version) != amd_smi::kSuccess) return;
  const auto& n = version.numbers;
  abi_ = n[0];
  known_ = (abi_ == 24 && n[1] >= kLeast24) || abi_ == 25 || abi_ == 26;
  version_ = abi_ < 26 ? fmt::format("{}.{}.{}.{}", n[0], n[1], n[2], n[3]) : fmt::format("{}.{}.{}", n[0], n[1], n[2]);
  if (known_ && version.build != nullptr) build_ = version.build;
  if (!known_) {
    net::log_line(net::LogLevel::Warning,
                  "AMD SMI is none of the versions known here (24.7, 25, 26: ROCm 6.3 to 7): GPUs are only observed",
                  {{"version", version_}});
  }
}

Result<void> AmdSmi::find_gpus(const std::string& where) {
  const auto all = [&](auto&& ask) -> Result<std::vector<Handle>> {
    std::uint32_t n = 0;
    Status code = ask(&n, nullptr);
    std::vector<Handle> handles(n);
    if (code == amd_smi::kSuccess && n > 0) code = ask(&n, handles.data());
    if (code != amd_smi::kSuccess) return external_failure(where, fmt::format("lists no GPUs: status {}", code));
    handles.resize(std::min<std::size_t>(n, handles.size()));
    return handles;
  };
  const auto sockets = all([&](std::uint32_t* n, Handle* to) { return symbols_->sockets(n, to); });
  if (!sockets) return std::unexpected(sockets.error());
  for (Handle socket : *sockets) {
    const auto gpus = all([&](std::uint32_t* n, Handle* to) { return symbols_->processors(socket, n, to); });
    if (!gpus) return std::unexpected(gpus.error());
    gpus_.insert(gpus_.end(), gpus->begin(), gpus->end());
  }
  return {};
}

Result<std::uint32_t> AmdSmi::count() const { return static_cast<std::uint32_t>(gpus_.size()); }

Result<std::string> AmdSmi::uuid_of(Handle gpu, const std::string& where) const {
  std::array<char, 64> text{};
  unsigned int length = text.size();
  if (const Status code = symbols_->uuid(gpu, &length, text.data()); code != amd_smi::kSuccess) {
    return external_failure(where, fmt::format("does not report its UUID: status {}", code));
  }
  return std::string(text.data());
}

Result<Gpu> AmdSmi::by_index(std::uint32_t index) const {
  const std::string where = "GPU " + std::to_string(index);
  if (index >= gpus_.size()) return bad_input(where, "there is no such GPU here");
  const Handle gpu = gpus_[index];
  auto uuid = uuid_of(gpu, where);
  if (!uuid) return std::unexpected(uuid.error());
  Gpu::Description is{.index = index, .uuid = std::move(*uuid)};
  amd_smi::AsicInfo asic{};
  if (symbols_->asic_info != nullptr && symbols_->asic_info(gpu, &asic) == amd_smi::kSuccess) {
    asic.market_name[sizeof asic.market_name - 1] = 0;
    is.name = static_cast<const char*>(asic.market_name);
  }
  // Every whole MHz between the ends can be set.
  if (const auto range = clocks_of(gpu); range.ok() && !missing(range.value.least) && !missing(range.value.most)) {
    for (std::uint32_t clock = std::max(range.value.least, 1U); clock <= range.value.most; ++clock) {
      is.clocks.push_back(mhz(clock));
    }
  }
  return Gpu(*this, gpu, std::move(is));
}

Result<Gpu> AmdSmi::by_uuid(const std::string& uuid) const {
  for (std::uint32_t i = 0; i < gpus_.size(); ++i) {
    const auto mine = uuid_of(gpus_[i], uuid);
    if (mine && *mine == uuid) return by_index(i);
  }
  return bad_input(uuid, "there is no such GPU here");
}

std::string AmdSmi::driver_version() const { return "AMD SMI " + version_ + (build_.empty() ? "" : "-" + build_); }

GpuAnswer<amd_smi::ClockInfo> AmdSmi::clocks_of(Handle gpu) const {
  if (symbols_->clock_info == nullptr || !known_) return {{}, GpuStatus::Absent};
  amd_smi::ClockInfo info{};
  const Status code = symbols_->clock_info(gpu, amd_smi::kClockGraphics, &info);
  return {info, status_of(code)};
}

GpuStatus AmdSmi::lock_clock(const Gpu& gpu, MegaHertz clock) const {
  if (symbols_->set_clock_limit == nullptr || symbols_->set_perf_level == nullptr || !known_) return GpuStatus::Absent;
  const auto set = [&](std::uint32_t limit) {
    return status_of(symbols_->set_clock_limit(gpu.device(), amd_smi::kClockGraphics, limit,
                                               static_cast<std::uint64_t>(clock.value())));
  };
  // The lower limit may not exceed the upper one. Some GPUs do not take a lower limit; the upper one is what saves
  // energy.
  const auto range = clocks_of(gpu.device());
  const bool falls = range.ok() && static_cast<std::uint32_t>(clock.value()) < range.value.least;
  if (falls) (void)set(amd_smi::kLimitLeast);
  const GpuStatus status = set(amd_smi::kLimitMost);
  if (status == GpuStatus::Ok && !falls) (void)set(amd_smi::kLimitLeast);
  return status;
}

GpuStatus AmdSmi::reset_clock(const Gpu& gpu) const {
  if (symbols_->set_perf_level == nullptr || !known_) return GpuStatus::Absent;
  return status_of(symbols_->set_perf_level(gpu.device(), amd_smi::kPerfLevelAuto));
}

GpuStatus AmdSmi::set_power_limit(const Gpu& gpu, Milliwatts limit) const {
  if (symbols_->set_power_cap == nullptr || !known_) return GpuStatus::Absent;
  return status_of(symbols_->set_power_cap(gpu.device(), 0, static_cast<std::uint64_t>(limit.value()) * 1000));
}

GpuAnswer<amd_smi::PowerCapInfo> AmdSmi::caps_of(Handle gpu) const {
  if (symbols_->power_cap_info == nullptr || !known_) return {{}, GpuStatus::Absent};
  amd_smi::PowerCapInfo info{};
  const Status code = symbols_->power_cap_info(gpu, 0, &info);
  return {info, status_of(code)};
}
GpuAnswer<Milliwatts> AmdSmi::power_limit(const Gpu& gpu) const {
  const auto caps = caps_of(gpu.device());
  return {from_microwatts(caps.value.cap), caps.failure};
}
GpuAnswer<Milliwatts> AmdSmi::least_power_limit(const Gpu& gpu) const {
  const auto caps = caps_of(gpu.device());
  return {from_microwatts(caps.value.least), caps.failure};
}

bool AmdSmi::partitioned(const Gpu& gpu) const {
  std::array<char, 16> kind{};
  return symbols_->partition != nullptr &&
         symbols_->partition(gpu.device(), kind.data(), kind.size()) == amd_smi::kSuccess && kind[0] != 0 &&
         std::string_view(kind.data()) != "SPX";
}

GpuAnswer<MegaHertz> AmdSmi::sm_clock(const Gpu& gpu) const {
  const auto info = clocks_of(gpu.device());
  if (info.ok() && missing(info.value.now)) return {MegaHertz(0), GpuStatus::Absent};
  return {mhz(info.value.now), info.failure};
}
GpuAnswer<MegaHertz> AmdSmi::max_sm_clock(const Gpu& gpu) const {
  if (gpu.clocks().empty()) return {MegaHertz(0), GpuStatus::Absent};
  return {gpu.clocks().back()};
}

GpuAnswer<Milliwatts> AmdSmi::watts_of(Handle gpu, bool average) const {
  if (symbols_->power_info == nullptr || !known_) return {Milliwatts(), GpuStatus::Absent};
  std::uint32_t now = 0;
  std::uint32_t mean = 0;
  const auto read = [&](auto info) {
    const Status code = symbols_->power_info(gpu, &info);
    now = info.now;
    mean = info.average;
    return status_of(code);
  };
  const GpuStatus status = abi_ == 24 ? read(amd_smi::PowerInfo24{}) : read(amd_smi::PowerInfo{});
  if (status != GpuStatus::Ok) return {Milliwatts(), status};
  const std::uint32_t watts = average || missing(now) ? mean : now;  // older cards have the mean alone
  if (missing(watts)) return {Milliwatts(), GpuStatus::Absent};
  return {Milliwatts(std::int64_t{watts} * 1000)};
}
GpuAnswer<Milliwatts> AmdSmi::power(const Gpu& gpu) const { return watts_of(gpu.device(), false); }
GpuAnswer<Milliwatts> AmdSmi::average_power(const Gpu& gpu) const { return watts_of(gpu.device(), true); }

GpuAnswer<std::uint64_t> AmdSmi::energy_counter_mj(const Gpu& gpu) const {
  if (symbols_->energy == nullptr) return {0, GpuStatus::Absent};
  std::uint64_t counts = 0;
  std::uint64_t at = 0;
  float microjoules = 0.0F;  // a count's
  const Status code = symbols_->energy(gpu.device(), &counts, &microjoules, &at);
  const double mj = static_cast<double>(counts) * static_cast<double>(microjoules) * 1e-3;
  return {static_cast<std::uint64_t>(mj), status_of(code)};
}

GpuAnswer<std::uint32_t> AmdSmi::utilization_percent(const Gpu& gpu) const {
  if (symbols_->activity == nullptr || !known_) return {0, GpuStatus::Absent};
  amd_smi::EngineUsage usage{};
  const Status code = symbols_->activity(gpu.device(), &usage);
  return {missing(usage.graphics) ? 100 : usage.graphics, status_of(code)};
}

}  // namespace wattle::node
