#pragma once
// A second process that outlives the agent, however it dies, and releases its clock locks.
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "units/time.h"

namespace wattle::node {

struct GuardianOptions {
  std::string library;     ///< as open_gpus() takes it
  std::string state_file;  ///< empty: there is none
  /// Program and first arguments; `--nvml` and `--state` follow. Default: this program.
  std::vector<std::string> command = {"/proc/self/exe", "agent-guardian"};
};

/// The agent's end. The guardian holds the other end of a socket and detects our death when it closes, so no signal,
/// timer or exit handler of ours has to run.
class Guardian {
 public:
  /// `lock_fds` are inherited: what they lock stays locked until the guardian has finished as well.
  [[nodiscard]] static Result<Guardian> start(const GuardianOptions& options, const std::vector<int>& lock_fds);
  ~Guardian();
  Guardian(Guardian&& other) noexcept;
  Guardian& operator=(Guardian&& other) noexcept;

  /// Called before a GPU's first lock. When this returns, the message is in the kernel's buffer and will be read even
  /// if we die at once. False: the guardian is gone.
  [[nodiscard]] bool protect(const std::string& uuid);
  /// Its lock has been released.
  [[nodiscard]] bool release(const std::string& uuid);
  [[nodiscard]] bool alive();
  /// From the first one on the guardian expects another within kGuardianSilence. It is also woken, if it was stopped.
  void beat();
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  Guardian(int fd, pid_t pid) : fd_(fd), pid_(pid) {}
  [[nodiscard]] bool send(char verb, const std::string& uuid);
  int fd_ = -1;
  pid_t pid_ = -1;
};

/// File descriptors that the guardian inherits; locks are from kGuardianLocks on.
inline constexpr int kGuardianSocket = 3;
inline constexpr int kGuardianLocks = 4;

/// An agent that beats and is then silent for so long is stopped or stuck: nobody decides clocks.
inline constexpr Span kGuardianSilence = Span::s(10);

/// The guardian's main: waits for the agent's end, then resets the clocks of all GPUs still protected, retrying for up
/// to `patience_s`. Those of a silent agent are reset, too, and stay protected. Returns an exit code: 0: nothing
/// remains locked, 3: something does.
[[nodiscard]] int guard(const std::string& library, const std::string& state_file, int patience_s = 60);

}  // namespace wattle::node
