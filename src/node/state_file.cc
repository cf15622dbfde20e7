#include "node/state_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace wattle::node {

namespace {

constexpr std::string_view kKind = "wattle-agent-locks ";
constexpr std::string_view kVersion = "1";
constexpr std::size_t kLongest = 1'000'000;
constexpr const char* kEnd = "end";

std::string why() { return std::strerror(errno); }

bool write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

Result<std::set<std::string>> StateFile::read() const {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return std::set<std::string>{};
    return external_failure(path_, "cannot be read (" + why() + "); what is locked is unknown, so nothing is touched");
  }
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::read(fd, buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || text.size() > kLongest) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  const int error = errno;
  ::close(fd);
  if (n < 0) return external_failure(path_, std::string("cannot be read: ") + std::strerror(error));

  std::set<std::string> uuids;
  std::size_t at = 0;
  bool head = false;
  while (at < text.size()) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (!head) {
      if (!line.starts_with(kKind)) break;
      if (line.substr(kKind.size()) != kVersion) {
        return bad_input(path_, "was written by another version of the agent (" + line +
                                    "): unlock its GPUs with that version's --unlock");
      }
      head = true;
    } else if (line == kEnd) {
      return uuids;
    } else {
      uuids.insert(line);
    }
  }
  return bad_input(path_,
                   "is not a whole list of locked GPUs: reset the clocks of all GPUs here by hand (NVIDIA: nvidia-smi "
                   "--reset-gpu-clocks), then delete this file");
}

Result<void> StateFile::write(const std::set<std::string>& uuids) const {
  std::string text = fmt::format("{}{}\n", kKind, kVersion);
  for (const auto& uuid : uuids) text += uuid + "\n";
  text += std::string(kEnd) + "\n";

  const std::string draft = path_ + ".new";
  const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return external_failure(draft, "cannot be written: " + why());
  const bool written = write_all(fd, text) && ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  if (!written || ::rename(draft.c_str(), path_.c_str()) != 0) {
    const int reason = written ? errno : error;
    ::unlink(draft.c_str());
    return external_failure(path_, std::string("cannot be written: ") + std::strerror(reason));
  }
  const std::size_t slash = path_.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int directory_fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_fd >= 0) {
    ::fsync(directory_fd);  // best effort: some file systems refuse, and the rename has happened
    ::close(directory_fd);
  }
  return {};
}

Result<FileLock> lock_state(const std::string& state_path, int patience_s) {
  std::error_code none;
  const auto folder = std::filesystem::path(state_path).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, none)) {
    return external_failure(state_path,
                            "there is no folder " + folder.string() + "; make it, or name another file with --state");
  }
  return FileLock::take(state_path + ".lock", "another agent, or the guardian of one that died, still has these GPUs",
                        patience_s);
}

Result<FileLock> lock_gpu(const std::string& folder, const std::string& uuid, int patience_s) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return external_failure(folder, "cannot be made (" + error.message() + "); name another one with --gpu-locks");
  }
  return FileLock::take(folder + "/" + uuid, "another agent of this machine, or its guardian, has this GPU",
                        patience_s);
}

}  // namespace wattle::node
