#pragma once
// A process of our own that ends with us: started, listened to for one line, ended.
#include <sys/types.h>

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
                                           const std::string& log_file);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  /// The first line it prints. Errors: it ended (with its last words), or stayed silent for `timeout`.
  [[nodiscard]] Result<std::string> first_line(Span timeout);
  [[nodiscard]] bool running();
  /// SIGTERM, then after `grace` SIGKILL. Waits for the end.
  void stop(Span grace);
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  Child(std::string name, std::string log, pid_t pid, int output)
      : name_(std::move(name)), log_(std::move(log)), pid_(pid), output_(output) {}

  std::string name_;
  std::string log_;
  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace wattle::launch
