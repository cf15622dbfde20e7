#pragma once
// A process of our own: started, listened to for one line, ended. It ends with us, or is found by our successor.
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "units/time.h"

namespace wattle::launch {

class Child {
 public:
  /// Runs this very binary with `arguments`; its stderr goes to `log_file`. The child gets SIGTERM if we die, and
  /// ignores a terminal's Ctrl-C (its own process group), so that we decide the order of the end. Call before starting
  /// threads.
  [[nodiscard]] static Result<Child> start(const std::string& name, const std::vector<std::string>& arguments,
                                           const std::string& log_file) {
    return start(name, arguments, log_file, std::nullopt);
  }

  /// Where one that outlives us is found again.
  struct Trace {
    std::string pid_file;     ///< it writes its id there before it does anything else
    std::string output_file;  ///< what it prints
  };
  /// The same, in a session of its own: it goes on if we die, and ends when stopped or when this object goes, unless it
  /// is left.
  [[nodiscard]] static Result<Child> start(const std::string& name, const std::vector<std::string>& arguments,
                                           const std::string& log_file, const std::optional<Trace>& trace);
  /// One that a predecessor of ours started and left. Nothing: no process of that id runs with these `arguments` among
  /// its own. Not a child of ours, so that its end is seen, but not why.
  [[nodiscard]] static std::optional<Child> adopt(const std::string& name, const std::vector<std::string>& arguments,
                                                  const std::string& log_file, const Trace& trace);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  /// The first line it prints. Errors: it ended (with its last words), or stayed silent for `timeout`.
  [[nodiscard]] Result<std::string> first_line(Span timeout);
  [[nodiscard]] bool running();
  /// What it ended by, once running() is false: an exit code or a signal, the last line on its stderr, the log's path.
  [[nodiscard]] std::string end() const;
  /// SIGTERM, then after `grace` SIGKILL. Waits for the end.
  void stop(Span grace);
  /// It goes on without us, for a successor to adopt; to this object it has ended. Of one started with a Trace.
  void leave() { pid_ = -1; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Of one adopted: what it was started with.
  [[nodiscard]] std::vector<std::string> arguments() const;

 private:
  Child(std::string name, std::string log, pid_t pid, int output)
      : name_(std::move(name)), log_(std::move(log)), pid_(pid), output_(output) {}
  void wait_for_end(Span grace);

  std::string name_;
  std::string log_;
  pid_t pid_ = -1;
  int output_ = -1;  ///< its end of a pipe; -1: it prints into a file
  std::string output_file_;
  std::optional<int> status_;  ///< as waitpid has it; of one that is no child of ours nothing is known
  std::string command_;        ///< of one adopted: what /proc says of it, as long as it is the same process
};

}  // namespace wattle::launch
