#pragma once
// A folder of files that a process needs only while it runs, in the folder for temporary files.
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file_lock.h"

namespace wattle::testbed {

/// Removed with this object. make() also removes folders of processes that were killed: a folder belongs to its owner
/// as long as that holds the lock in it. (Process ids could have been reused.)
class WorkingFolder {
 public:
  /// parent/PREFIX-XXXXXX, new. First removes what dead owners left under that prefix. Errors: External, it cannot be
  /// made or locked.
  [[nodiscard]] static Result<WorkingFolder> make(const std::filesystem::path& parent, const std::string& prefix);
  ~WorkingFolder();
  WorkingFolder(WorkingFolder&& other) noexcept;
  WorkingFolder& operator=(WorkingFolder&& other) noexcept;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  WorkingFolder(std::filesystem::path path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::filesystem::path path_;
  FileLock lock_;
};

}  // namespace wattle::testbed
