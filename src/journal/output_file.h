#pragma once
// A file that is only ever appended to, through one bounded buffer.
#include <cstdint>
#include <string>

#include "base/error.h"

namespace wattle::journal {

/// Errors while writing (disk full) are kept and returned by flush() and close(): a sink's methods cannot return them.
/// After the first error nothing more is written and the buffer stays empty.
class OutputFile {
 public:
  /// Creates or empties the file. Errors: External with the system's own words.
  [[nodiscard]] static Result<OutputFile> create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// Append to this, then call written().
  [[nodiscard]] std::string& buffer() { return buffer_; }
  /// Hands the buffer to the system once it holds 64 KiB.
  void written() {
    if (buffer_.size() >= kBufferBytes) drain();
  }
  /// Hands the buffer to the system now: it outlives this process. Errors: the first of the file's life.
  [[nodiscard]] Result<void> flush();
  /// Handed to the system so far.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Flushes, closes, and returns the first error of the file's life.
  [[nodiscard]] Result<void> close();

 private:
  static constexpr std::size_t kBufferBytes = 64 * 1024;

  OutputFile(std::string path, int descriptor);
  void drain();
  [[nodiscard]] Result<void> state() const;

  std::string path_;
  int descriptor_ = -1;
  std::string buffer_;
  std::int64_t bytes_ = 0;
  int error_ = 0;  ///< errno of the first failed write
};

}  // namespace wattle::journal
