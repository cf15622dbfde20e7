#pragma once
// Which GPUs we have locked, by UUID, on disk: for the agent that follows a crashed one.
#include <set>
#include <string>

#include "base/error.h"
#include "base/file_lock.h"

namespace wattle::node {

/// One UUID per line between a first and a last line, so that a truncated file is recognised.
class StateFile {
 public:
  explicit StateFile(std::string path) : path_(std::move(path)) {}
  /// A file that does not exist is empty. One that cannot be read or parsed is an error: nothing is known, and the
  /// caller must neither restore nor overwrite.
  [[nodiscard]] Result<std::set<std::string>> read() const;
  /// Durable when it returns (temporary file, fsync, rename). Errors: cannot write there.
  [[nodiscard]] Result<void> write(const std::set<std::string>& uuids) const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Held by an agent and, inherited, by its guardian: the next agent starts only when both have finished with the GPUs.
/// Waits up to `patience_s` for the other holder. Errors: still held; cannot create.
[[nodiscard]] Result<FileLock> lock_state(const std::string& state_path, int patience_s);
/// The same for one GPU, whatever an agent's state file: a file named after its UUID in `folder`, which is created.
[[nodiscard]] Result<FileLock> lock_gpu(const std::string& folder, const std::string& uuid, int patience_s);

}  // namespace wattle::node
