#include "testbed/working_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

namespace wattle::testbed {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLock = ".owner";

void remove_left(const fs::path& parent, const std::string& prefix) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    const fs::path lock = entry.path() / kLock;
    if (!entry.path().filename().string().starts_with(prefix + "-") || !fs::exists(lock, ignored)) continue;
    const auto held = FileLock::take(lock.string(), "in use", 0);
    if (held) fs::remove_all(entry.path(), ignored);
  }
}

/// False: another process took the folder for abandoned and removed it between its creation and our lock.
bool is_there(const fs::path& file, const FileLock& lock) {
  struct stat named {};
  struct stat held {};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(lock.fd(), &held) == 0 && named.st_ino == held.st_ino &&
         named.st_dev == held.st_dev;
}

}  // namespace

Result<WorkingFolder> WorkingFolder::make(const fs::path& parent, const std::string& prefix) {
  remove_left(parent, prefix);
  while (true) {
    std::string path = (parent / (prefix + "-XXXXXX")).string();
    if (::mkdtemp(path.data()) == nullptr) {
      return external_failure(
          path, fmt::format("cannot be made: {}; set TMPDIR to a folder you may write to", std::strerror(errno)));
    }
    const fs::path file = fs::path(path) / kLock;
    auto lock = FileLock::take(file.string(), "is locked by another process", 5);
    if (lock && is_there(file, *lock)) return WorkingFolder(path, std::move(*lock));
    std::error_code code;
    if (!lock && fs::exists(path, code)) return std::unexpected(lock.error());
  }
}

WorkingFolder::~WorkingFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

WorkingFolder::WorkingFolder(WorkingFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

WorkingFolder& WorkingFolder::operator=(WorkingFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

}  // namespace wattle::testbed
