#include "net/line_writer.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace wattle::net {

struct LineWriter::Shared {
  int fd = -1;
  std::size_t most_bytes = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> waiting;
  std::size_t bytes = 0;    ///< of those that wait or are being written
  std::int64_t lost = 0;    ///< lines
  bool writing = false;     ///< the thread has taken lines
  bool has_thread = false;  ///< since the first line
  bool over = false;        ///< nothing more is written
};

namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {  // its other owners have made it so
      pollfd wanted{fd, POLLOUT, 0};
      ::poll(&wanted, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

LineWriter::LineWriter(int fd, std::size_t most_bytes) : shared_(std::make_shared<Shared>()) {
  shared_->fd = fd;
  shared_->most_bytes = most_bytes;
}

LineWriter::~LineWriter() {
  flush(Span::s(1));
  const std::lock_guard lock(shared_->mutex);
  shared_->over = true;
  shared_->changed.notify_all();
}

void LineWriter::write_lines(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->over || !shared->waiting.empty(); });
    if (shared->over) return;
    const auto lines = std::exchange(shared->waiting, {});
    shared->writing = true;
    for (const std::string& line : lines) {
      lock.unlock();
      const bool written = write_all(shared->fd, line);
      lock.lock();
      if (!written) ++shared->lost;
      shared->bytes -= line.size();
      if (shared->over) return;
    }
    shared->writing = false;
    shared->changed.notify_all();
  }
}

void LineWriter::add(std::string_view line) {
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->has_thread) {
    // With every signal blocked: those that end the process are its other threads' to hear, and those of failed writes
    // come to the thread that writes.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([shared = shared_] { write_lines(shared); }).detach();
      shared_->has_thread = true;
    } catch (const std::system_error&) {  // no thread is to be had: perhaps for the next line
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  if (!shared_->has_thread || shared_->bytes + line.size() > shared_->most_bytes) {
    ++shared_->lost;
    return;
  }
  shared_->waiting.emplace_back(line);
  shared_->bytes += line.size();
  shared_->changed.notify_all();
}

bool LineWriter::flush(Span patience) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, std::chrono::nanoseconds(patience.ns()),
                                   [&] { return shared_->waiting.empty() && !shared_->writing; });
}

std::int64_t LineWriter::lost() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->lost;
}

}  // namespace wattle::net
