#pragma once
// Load profiles kept by name and version: a shared directory that all clusters see, and a cache local to one
// (DynamoLLM, HPCA 2025, section IV-A).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "plan/load_table.h"

namespace wattle::calibrate {

/// Files NAME.vVERSION.profile, as plan::to_text writes them. A version that is published never changes; a new profile
/// of the same name gets the next one. Callable from any thread and from several processes at once.
class ProfileRepository {
 public:
  /// Either may be empty: nothing is found or kept there. Directories are made when first needed.
  ProfileRepository(std::string shared, std::string cache) : shared_(std::move(shared)), cache_(std::move(cache)) {}

  struct Found {
    plan::LoadTable table;
    int version = 0;
    std::string file;  ///< where it was read from
  };
  /// The newest version, or the one asked for: from the shared directory, and then into the cache, which serves alone
  /// while the shared directory cannot be read. None: no profile of that name. Errors: a file that is not whole
  /// (parse_load_table), a version that is not there.
  [[nodiscard]] Result<std::optional<Found>> find(std::string_view name, std::optional<int> version = {}) const;

  /// Keeps it as the next version, in the shared directory where there is one, and in the cache; which. Errors: a table
  /// with holes, a name with other characters than letters, digits, '-', '_', '@' and '.', a directory that cannot be
  /// written.
  [[nodiscard]] Result<int> publish(std::string_view name, const plan::LoadTable& table) const;

 private:
  void keep(const std::string& file, const std::string& text) const;
  std::string shared_, cache_;
};

}  // namespace wattle::calibrate
