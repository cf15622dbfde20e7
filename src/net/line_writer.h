#pragma once
// Writes lines to a descriptor whose reader may be slow, stopped or gone. Lines wait in bounded memory for a separate
// thread; those that do not fit or are not read are dropped and counted. Adding a line never blocks.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "units/time.h"

namespace wattle::net {

class LineWriter {
 public:
  /// `fd` remains the caller's and must stay open. `most_bytes`: limit on waiting lines.
  LineWriter(int fd, std::size_t most_bytes);
  /// flush() for a second; lines that still wait are abandoned, as is the thread if a write blocks it.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// Any thread. `line` includes its line end. Signals of failed writes (SIGPIPE, SIGXFSZ) do not end the process.
  void add(std::string_view line);
  /// Waits for at most `patience` until all added lines are written or dropped. False: some still wait.
  bool flush(Span patience);
  /// Number of lines dropped so far.
  [[nodiscard]] std::int64_t lost() const;

 private:
  struct Shared;
  static void write_lines(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;  ///< shared with the thread, which may outlive this object
};

}  // namespace wattle::net
