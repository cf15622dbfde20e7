#pragma once
// Whatever library knows this machine's GPUs.
#include <memory>
#include <string>

#include "node/gpu/gpu.h"

namespace wattle::node {

/// By what is written for --nvml, and handed to the guardian:
/// PATH of an NVML library;
/// "zeusd:SOCKET[,PATH]": reading through that NVML, setting through Zeus' daemon (zeusd.h);
/// "amd-smi:PATH": AMD SMI (amd_smi.h); without PATH, the one that is installed.
[[nodiscard]] Result<std::shared_ptr<const GpuLibrary>> open_gpus(const std::string& library);

}  // namespace wattle::node
