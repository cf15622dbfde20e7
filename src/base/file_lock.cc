#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace wattle {

Result<FileLock> FileLock::take(const std::string& path, const std::string& taken, int patience_s) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return external_failure(path, std::string("cannot be created: ") + std::strerror(errno));
  for (int tries = patience_s * 50;; --tries) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return FileLock(fd);
    if (tries <= 0) break;
    ::usleep(20'000);
  }
  ::close(fd);
  return external_failure(path, taken);
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}
FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace wattle
