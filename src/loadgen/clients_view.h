#pragma once
// A run's latencies as its clients have seen them.
#include <string>

#include "base/error.h"
#include "journal/statistics.h"

namespace wattle::loadgen {

/// Puts the clients' attainment, latencies and curves (every single gap among them) in place of the gateway's in
/// directory/run.json. Errors: no run there, or it cannot be written.
[[nodiscard]] Result<void> write_clients_view(const std::string& directory, const journal::RunSummary& clients,
                                              const journal::RunCurves& curves);

}  // namespace wattle::loadgen
