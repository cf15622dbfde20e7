#pragma once
// Where temporary files go.
#include <filesystem>
#include <system_error>

namespace wattle {

/// TMPDIR's folder, else /tmp where that one is missing or no folder. Does not throw for either.
[[nodiscard]] inline std::filesystem::path temporary_folder() {
  std::error_code missing;
  auto folder = std::filesystem::temp_directory_path(missing);
  return missing ? std::filesystem::path("/tmp") : folder;
}

}  // namespace wattle
