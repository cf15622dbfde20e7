#pragma once
// Where the project's folders and the data sets are. The environment is read here and nowhere else.
#include <memory>
#include <string>

#include "base/error.h"
#include "config/load.h"
#include "config/project.h"
#include "config/scenario.h"
#include "workload/source.h"

namespace wattle::config {

/// The folders with scenarios/, recipes/ and specs/: WATTLE_HOME when set; then, of a binary PREFIX/bin/wattle that was
/// installed, PREFIX/share/wattle, else the tree it was built from.
[[nodiscard]] config::Project project();

/// A library that is opened by file: where it was built, or PREFIX/lib/wattle of a binary that was installed.
[[nodiscard]] std::string library_file(const std::string& built);

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

/// The source of requests of a workload located so. Errors: of a key, where that was written.
[[nodiscard]] Result<std::unique_ptr<workload::RequestSource>> open_workload(const LoadedScenario& loaded,
                                                                             const workload::WorkloadOptions& located,
                                                                             const std::string& data_dir);

}  // namespace wattle::config
