#include "config/locate.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "config/cache_dir.h"
#include "workload/source.h"

namespace wattle::config {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

config::Project project() {
  std::vector<std::filesystem::path> roots;
  if (const std::string home = environment("WATTLE_HOME"); !home.empty()) roots.emplace_back(home);
  roots.emplace_back(WATTLE_SOURCE_DIR);
  return config::Project(std::move(roots));
}

std::string data_dir() { return environment("WATTLE_DATA"); }

std::string cache_dir() {
  if (const std::string folder = environment("WATTLE_CACHE"); !folder.empty()) return folder == "none" ? "" : folder;
  if (const std::string caches = environment("XDG_CACHE_HOME"); !caches.empty()) {
    return (std::filesystem::path(caches) / "wattle").string();
  }
  const std::string home = environment("HOME");
  return home.empty() ? "" : (std::filesystem::path(home) / ".cache" / "wattle").string();
}

std::string base_dir(const config::Scenario& scenario) {
  return std::filesystem::path(scenario.file).parent_path().string();
}

Result<workload::WorkloadOptions> locate_workload(const config::Scenario& scenario, const std::string& data_dir) {
  workload::WorkloadOptions options = scenario.workload;
  if (options.trace.empty()) return options;
  const Result<std::string> found = workload::find_file(options.trace, data_dir, base_dir(scenario));
  if (found) return options;
  if (scenario.workload_fallback.empty()) return std::unexpected(found.error());
  fmt::print(stderr, "wattle: {} is not here{}; synthesising \"{}\" instead (workload.fallback)\n", options.trace,
             data_dir.empty() ? " (WATTLE_DATA is not set)" : "", scenario.workload_fallback);
  options.trace.clear();
  options.synthetic = scenario.workload_fallback;
  return options;
}

}  // namespace wattle::config
