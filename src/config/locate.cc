#include "config/locate.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <vector>

#include "config/cache_dir.h"

namespace wattle::config {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

namespace {

/// The prefix this binary was installed under ("/usr/local" of "/usr/local/bin/wattle"); empty: it runs where it was
/// built.
const std::filesystem::path& installed_prefix() {
  static const std::filesystem::path prefix = [] {
    std::error_code code;
    const auto binary = std::filesystem::read_symlink("/proc/self/exe", code);
    if (code) return std::filesystem::path();
    auto above = binary.parent_path().parent_path();
    return std::filesystem::is_directory(above / "share" / "wattle", code) ? above : std::filesystem::path();
  }();
  return prefix;
}

}  // namespace

config::Project project() {
  std::vector<std::filesystem::path> roots;
  if (const std::string home = environment("WATTLE_HOME"); !home.empty()) roots.emplace_back(home);
  const auto& prefix = installed_prefix();
  roots.push_back(prefix.empty() ? std::filesystem::path(WATTLE_SOURCE_DIR) : prefix / "share" / "wattle");
  return config::Project(std::move(roots));
}

std::string library_file(const std::string& built) {
  const auto& prefix = installed_prefix();
  if (prefix.empty()) return built;
  return (prefix / "lib" / "wattle" / std::filesystem::path(built).filename()).string();
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

namespace {

/// On stderr, once a process: a scenario's workload is located for every load that is measured on it.
void say_once(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(line).second) fmt::print(stderr, "{}", line);
}

}  // namespace

std::string base_dir(const config::Scenario& scenario) {
  const auto folder = std::filesystem::path(scenario.file).parent_path();
  return folder.empty() ? "." : folder.string();
}

Result<workload::WorkloadOptions> locate_workload(const config::Scenario& scenario, const std::string& data_dir) {
  workload::WorkloadOptions options = scenario.workload;
  if (options.trace.empty()) return options;
  const Result<std::string> found = workload::find_file(options.trace, data_dir, base_dir(scenario));
  if (found) return options;
  if (scenario.workload_fallback.empty()) return std::unexpected(found.error());
  say_once(fmt::format("wattle: {} is not here{}; synthesising \"{}\" instead (workload.fallback)\n", options.trace,
                       data_dir.empty() ? " (WATTLE_DATA is not set)" : "", scenario.workload_fallback));
  options.trace.clear();
  options.synthetic = scenario.workload_fallback;
  return options;
}

Result<std::unique_ptr<workload::RequestSource>> open_workload(const LoadedScenario& loaded,
                                                               const workload::WorkloadOptions& located,
                                                               const std::string& data_dir) {
  const auto& scenario = loaded.scenario;
  auto source = workload::make_source(located, data_dir, base_dir(scenario), scenario.seed);
  if (source || !source.error().where.starts_with("workload.")) return source;
  Error& error = source.error();
  error.what = error.where + " " + error.what;
  error.where = loaded.origins.of(error.where);
  return source;
}

}  // namespace wattle::config
