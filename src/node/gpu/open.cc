#include "node/gpu/open.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "node/gpu/amd_smi.h"
#include "node/gpu/nvml.h"
#include "node/gpu/zeusd.h"

namespace wattle::node {

Result<std::shared_ptr<const GpuLibrary>> open_gpus(const std::string& library) {
  const auto base = [](auto&& opened) -> Result<std::shared_ptr<const GpuLibrary>> {
    if (!opened) return std::unexpected(opened.error());
    return std::shared_ptr<const GpuLibrary>(std::move(*opened));
  };
  constexpr std::string_view kAmdSmi = "amd-smi:";
  if (library.starts_with(kAmdSmi)) return base(AmdSmi::open(library.substr(kAmdSmi.size())));
  constexpr std::string_view kZeusd = "zeusd:";
  if (!library.starts_with(kZeusd)) return base(Nvml::open(library));
  const std::string rest = library.substr(kZeusd.size());
  const std::size_t comma = std::min(rest.find(','), rest.size());
  auto nvml = base(Nvml::open(comma == rest.size() ? Nvml::kLibrary : rest.substr(comma + 1)));
  if (!nvml) return nvml;
  return base(Zeusd::open(rest.substr(0, comma), std::move(*nvml)));
}

}  // namespace wattle::node
