#pragma once
// Trained models kept as files from one process to the next, by a digest of all that their training depends on.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wattle::calibrate {

/// A folder of such files; it may be deleted at any time. Callable from any thread and from several processes at once.
class ModelCache {
 public:
  /// `folder`: made when first needed; empty: nothing is found or kept.
  explicit ModelCache(std::string folder) : folder_(std::move(folder)) {}

  /// What was kept under this key. Nothing where the file is missing, of another form, cut off or changed.
  [[nodiscard]] std::optional<std::vector<std::string>> find(std::uint64_t key) const;
  /// Replaces the file in one step. A folder that cannot be written costs the next process its time, and is no error.
  void keep(std::uint64_t key, std::span<const std::string> models) const;

 private:
  [[nodiscard]] std::string path(std::uint64_t key) const;

  std::string folder_;
};

}  // namespace wattle::calibrate
