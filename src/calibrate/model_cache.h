#pragma once
// Cache of trained models as files shared by processes, keyed by a digest of everything that their training depends on.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wattle::calibrate {

/// A folder of cached models; it may be deleted at any time. Callable from any thread and from several processes at
/// once.
class ModelCache {
 public:
  /// `folder`: created when first needed; empty: no caching.
  explicit ModelCache(std::string folder) : folder_(std::move(folder)) {}

  /// The models stored under this key. None if the file is missing, has another format, is truncated or was changed.
  [[nodiscard]] std::optional<std::vector<std::string>> find(std::uint64_t key) const;
  /// Stores models atomically. A folder that cannot be written is not an error; the next process trains again.
  void keep(std::uint64_t key, std::span<const std::string> models) const;

 private:
  [[nodiscard]] std::string path(std::uint64_t key) const;

  std::string folder_;
};

}  // namespace wattle::calibrate
