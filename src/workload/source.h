#pragma once
// Where a driver pulls its requests from: a trace file or a synthetic process behind one interface.
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "workload/options.h"
#include "workload/request_source.h"

namespace wattle::workload {

/// Builds the source the options name. A trace is read and checked whole (32 bytes a row are kept, and its hashes); a
/// synthetic source needs the same memory for any number of requests. The same seed yields the same requests on every
/// machine. `data_dir` is the data directory (apps: WATTLE_DATA; may be empty), `base_dir` the scenario file's folder.
/// Errors: BadInput with "file:line" for files, "workload.KEY" for options; also where not one request is left.
[[nodiscard]] Result<std::unique_ptr<RequestSource>> make_source(const WorkloadOptions& options,
                                                                 const std::string& data_dir,
                                                                 const std::string& base_dir, std::uint64_t seed);

/// Where a relative path leads: absolute paths as they are, else in data_dir, else in base_dir, else (neither given)
/// the working directory. Errors: not found, naming every place looked at.
[[nodiscard]] Result<std::string> find_file(const std::string& path, const std::string& data_dir,
                                            const std::string& base_dir);

}  // namespace wattle::workload
