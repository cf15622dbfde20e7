#pragma once
// Load profiles by name and version, in a directory shared by all clusters and a local cache (DynamoLLM, HPCA 2025,
// section IV-A).
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "plan/load_table.h"

namespace wattle::calibrate {

/// Files NAME.vVERSION.profile, as written by plan::to_text. A published version never changes; a new profile with the
/// same name gets the next version. Callable from any thread and from several processes at once.
class ProfileRepository {
 public:
  /// An empty directory is not used. Directories are created when first needed.
  ProfileRepository(std::string shared, std::string cache) : shared_(std::move(shared)), cache_(std::move(cache)) {}

  struct Found {
    plan::LoadTable table;
    int version = 0;
    std::string file;  ///< where it was read from
  };
  /// The newest or the given version: read from the shared directory and copied to the cache, which is used alone while
  /// the shared directory cannot be read. None: no profile with that name. Errors: an incomplete file
  /// (parse_load_table); a missing version.
  [[nodiscard]] Result<std::optional<Found>> find(std::string_view name, std::optional<int> version = {}) const;

  /// Stores the table as the next version in the shared directory, if there is one, and in the cache; returns the
  /// version. Errors: a table with gaps; a name with characters other than letters, digits, '-', '_', '@' and '.'; a
  /// directory that cannot be written.
  [[nodiscard]] Result<int> publish(std::string_view name, const plan::LoadTable& table) const;

 private:
  void keep(const std::string& file, const std::string& text) const;
  std::string shared_, cache_;
};

}  // namespace wattle::calibrate
