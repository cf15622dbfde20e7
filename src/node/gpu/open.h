#pragma once
// Opens the library that knows this machine's GPUs.
#include <memory>
#include <string>

#include "node/gpu/gpu.h"

namespace wattle::node {

/// `library`, as given for --nvml and to the guardian:
/// PATH of an NVML library;
/// "zeusd:SOCKET[,PATH]": reading through that NVML, setting through Zeus' daemon (zeusd.h);
/// "amd-smi:PATH": AMD SMI (amd_smi.h); without PATH, the installed one.
[[nodiscard]] Result<std::shared_ptr<const GpuLibrary>> open_gpus(const std::string& library);

}  // namespace wattle::node
