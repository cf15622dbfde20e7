#include "journal/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace wattle::journal {
namespace {

std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace

OutputFile::OutputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {
  buffer_.reserve(kBufferBytes + 4096);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      buffer_(std::move(other.buffer_)),
      bytes_(other.bytes_),
      error_(other.error_) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) static_cast<void>(close());
}

Result<OutputFile> OutputFile::create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return external_failure(path, "cannot be written (" + reason_of(errno) + "); name a directory you may write to");
  }
  return OutputFile(path, descriptor);
}

void OutputFile::drain() {
  std::string_view rest = buffer_;
  while (!rest.empty() && error_ == 0) {
    const ssize_t n = ::write(descriptor_, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
      bytes_ += n;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  buffer_.clear();
}

Result<void> OutputFile::state() const {
  if (error_ == 0) return {};
  return external_failure(path_, "is incomplete (" + reason_of(error_) + "); free some space or write elsewhere");
}

Result<void> OutputFile::flush() {
  drain();
  return state();
}

Result<void> OutputFile::close() {
  drain();
  if (::close(std::exchange(descriptor_, -1)) != 0 && error_ == 0) error_ = errno;
  return state();
}

}  // namespace wattle::journal
