#pragma once
// A file that one process at a time holds locked: the kernel unlocks it when that process, and all that inherited the
// descriptor, have ended.
#include <string>

#include "base/error.h"

namespace wattle {

class FileLock {
 public:
  /// Creates the file if it does not exist, and waits up to `patience_s` for another holder. Errors: External, where =
  /// path: it cannot be created; `taken`: the message if another process still holds it.
  [[nodiscard]] static Result<FileLock> take(const std::string& path, const std::string& taken, int patience_s);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  [[nodiscard]] int fd() const { return fd_; }  ///< closed on exec

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace wattle
