#include "base/file.h"

#include <fmt/core.h>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace wattle {

namespace {
struct Close {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Close>;
}  // namespace

Result<std::string> read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return bad_input(path, "is a directory; name a file");
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) return bad_input(path, fmt::format("cannot be read ({}); check the path", std::strerror(errno)));
  std::string bytes;
  const auto size = std::filesystem::file_size(path, ignored);
  if (!ignored) bytes.reserve(size);
  // A pipe has no size, and a file may grow, so read until the end.
  std::size_t used = 0;
  for (;;) {
    bytes.resize(std::max(bytes.capacity(), used + 65536));
    const std::size_t n = std::fread(bytes.data() + used, 1, bytes.size() - used, file.get());
    used += n;
    if (n == 0) break;
  }
  if (std::ferror(file.get()) != 0) return bad_input(path, "could not be read to its end; check the disk");
  bytes.resize(used);
  return bytes;
}

Result<void> write_file(const std::string& path, std::string_view bytes) {
  File file(std::fopen(path.c_str(), "wb"));
  if (!file) return external_failure(path, fmt::format("cannot be written ({})", std::strerror(errno)));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  const bool closed = std::fclose(file.release()) == 0;
  if (!written || !closed) return external_failure(path, "was not written to its end; is the disk full?");
  return {};
}

Result<void> check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path folder = fs::path(path).parent_path();
  if (fs::is_directory(path, none)) {
    errno = EISDIR;
  } else if (::access(fs::exists(path, none) ? path.c_str() : folder.empty() ? "." : folder.c_str(), W_OK) == 0) {
    return {};
  }
  return external_failure(path, fmt::format("cannot be written ({})", std::strerror(errno)));
}

Result<void> replace_file(const std::string& path, std::string_view bytes) {
  namespace fs = std::filesystem;
  std::error_code code;
  if (fs::exists(path, code) && !fs::is_regular_file(path, code)) return write_file(path, bytes);
  const fs::path linked = fs::canonical(path, code);
  const std::string file = code ? path : linked.string();
  const std::string fresh = file + ".new";
  auto written = write_file(fresh, bytes);
  code.clear();
  if (written) fs::rename(fresh, file, code);
  if (code) written = external_failure(path, fmt::format("cannot be replaced ({})", code.message()));
  if (!written) {
    written.error().where = path;
    fs::remove(fresh, code);
  }
  return written;
}

std::filesystem::path temporary_folder() {
  std::error_code none;
  const auto folder = std::filesystem::temp_directory_path(none);
  return none ? "/tmp" : folder;
}

}  // namespace wattle
