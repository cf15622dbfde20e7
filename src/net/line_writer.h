#pragma once
// Lines to a descriptor whose reader may be slow, stopped or gone: they wait in bounded memory for a thread of their
// own, and what does not fit or is not taken is lost and counted. Who writes a line never waits.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "units/time.h"

namespace wattle::net {

class LineWriter {
 public:
  /// `fd` stays the caller's, and open. `most_bytes`: of lines that wait.
  LineWriter(int fd, std::size_t most_bytes);
  /// flush() for a second; what waits after that is abandoned, as is a thread that a write holds.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  /// Any thread. `line` ends in a line end. A signal of a failed write (SIGPIPE, SIGXFSZ) ends nothing.
  void add(std::string_view line);
  /// Waits until every line that was added is written or lost, for `patience` at most. False: some wait on.
  bool flush(Span patience);
  /// Lines lost since the beginning.
  [[nodiscard]] std::int64_t lost() const;

 private:
  struct Shared;
  static void write_lines(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;  ///< with the thread, which may outlive this
};

}  // namespace wattle::net
