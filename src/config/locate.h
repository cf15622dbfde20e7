#pragma once
// Where the project's folders and the data sets are. The environment is read here and nowhere else.
#include <string>

#include "base/error.h"
#include "config/project.h"
#include "config/scenario.h"
#include "workload/options.h"

namespace wattle::config {

/// The folders with scenarios/, recipes/ and specs/: WATTLE_HOME when set, then the tree this binary was built from.
[[nodiscard]] config::Project project();

/// WATTLE_DATA, or "".
[[nodiscard]] std::string data_dir();

/// Any other environment variable, or "".
[[nodiscard]] std::string environment(const char* name);

/// The folder of a scenario's file, where its relative traces may lie.
[[nodiscard]] std::string base_dir(const config::Scenario& scenario);

/// The scenario's workload, ready for workload::make_source. When the trace file is absent and the scenario names a
/// fallback, that takes the trace's place and a line on stderr says so. Errors: absent and no fallback.
[[nodiscard]] Result<workload::WorkloadOptions> locate_workload(const config::Scenario& scenario,
                                                                const std::string& data_dir);

}  // namespace wattle::config
