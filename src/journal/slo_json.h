#pragma once
// Objectives as JSON, in run directories and between processes: {"ttft_ms": 600, "tbt_ms": 40}.
#include <string>

#include "base/error.h"
#include "model/request.h"

namespace wattle::journal {

/// Milliseconds; an absent objective has no key.
[[nodiscard]] std::string slo_text(const Slo& slo);
/// Errors, each with the key: no object, an unknown key, what is not in (0, 1e12] ms.
[[nodiscard]] Result<Slo> parse_slo(const std::string& json);

}  // namespace wattle::journal
