#include "node/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "net/log.h"
#include "node/claim.h"
#include "node/gpu/open.h"
#include "node/state_file.h"

extern char** environ;

namespace wattle::node {

namespace {

/// Signals that a terminal, a service manager or an operator may send. After SIGKILL the state file is used.
constexpr std::array kStorm = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM};

/// A device that the driver has lost may be back in a moment, with its lock. Shorter than the next agent's patience.
constexpr std::int64_t kSecond = 1'000'000;  ///< in us
constexpr std::int64_t kGonePatience = 5 * kSecond;

}  // namespace

Result<Guardian> Guardian::start(const GuardianOptions& options, const std::vector<int>& lock_fds) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return external_failure("guardian", std::string("no socket pair: ") + std::strerror(errno));
  }
  // Spawned with these signals blocked, in its own session, so that no signal can reach it before it ignores them. The
  // descriptors are first duplicated to high numbers so that they do not overwrite each other.
  const int above = kGuardianLocks + static_cast<int>(lock_fds.size());
  const int high = ::fcntl(ends[1], F_DUPFD_CLOEXEC, above);
  std::vector<int> locks_high;
  for (const int fd : lock_fds) locks_high.push_back(::fcntl(fd, F_DUPFD_CLOEXEC, above));
  ::close(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, high, kGuardianSocket);
  int place = kGuardianLocks;
  for (const int fd : locks_high) posix_spawn_file_actions_adddup2(&actions, fd, place++);
  posix_spawn_file_actions_addclosefrom_np(&actions, place);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int signal : kStorm) sigaddset(&blocked, signal);
  posix_spawnattr_setsigmask(&attributes, &blocked);

  std::vector<std::string> words = options.command;
  words.insert(words.end(), {"--nvml", options.library, "--state", options.state_file});
  if (net::log_format() == net::LogFormat::Json) words.insert(words.end(), {"--log-format", "json"});
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, words[0].c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(high);
  for (const int fd : locks_high) ::close(fd);
  if (failed != 0) {
    ::close(ends[0]);
    return external_failure(words[0], std::string("the guardian does not start: ") + std::strerror(failed));
  }
  return Guardian(ends[0], pid);
}

Guardian::~Guardian() {
  if (fd_ < 0) return;
  ::close(fd_);  // its cue; we do not wait for it, but do not leave a zombie if it is quick
  ::waitpid(pid_, nullptr, WNOHANG);
}
Guardian::Guardian(Guardian&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), pid_(std::exchange(other.pid_, -1)) {}
Guardian& Guardian::operator=(Guardian&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(pid_, other.pid_);
  return *this;
}

bool Guardian::send(char verb, const std::string& uuid) {
  const std::string line = verb + uuid + "\n";
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::send(fd_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool Guardian::protect(const std::string& uuid) { return send('+', uuid); }
bool Guardian::release(const std::string& uuid) { return send('-', uuid); }

void Guardian::beat() {
  ::kill(pid_, SIGCONT);
  constexpr std::string_view kBeat = ".\n";
  (void)::send(fd_, kBeat.data(), kBeat.size(), MSG_NOSIGNAL | MSG_DONTWAIT);  // full: it has enough to read
}

bool Guardian::alive() {
  if (fd_ < 0) return false;
  pollfd poll_fd{fd_, 0, 0};
  return ::poll(&poll_fd, 1, 0) == 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0;
}

namespace {

/// Reads until the agent's end of the socket is closed, by whatever means. `let_go`: resets one GPU, once in a silence.
std::set<std::string> wait_for_the_end(const std::function<bool(const std::string&)>& let_go) {
  std::set<std::string> locked;
  std::set<std::string> free;  // of these
  bool beats = false;
  std::string pending;
  for (;;) {
    pollfd agent{kGuardianSocket, POLLIN, 0};
    const bool waits = beats && free.size() < locked.size();
    const int ready = ::poll(&agent, 1, waits ? static_cast<int>(kGuardianSilence.ns() / 1'000'000) : -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      for (const auto& uuid : locked) {
        if (!free.contains(uuid) && let_go(uuid)) free.insert(uuid);
      }
      continue;
    }
    std::array<char, 4096> buffer{};
    const ssize_t n = ::read(kGuardianSocket, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return locked;
    free.clear();
    pending.append(buffer.data(), static_cast<std::size_t>(n));
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      const std::string uuid = pending.substr(1, end == 0 ? 0 : end - 1);
      if (pending[0] == '+') locked.insert(uuid);
      if (pending[0] == '-') locked.erase(uuid);
      if (pending[0] == '.') beats = true;
      pending.erase(0, end + 1);
    }
  }
}

GpuStatus reset(const GpuLibrary& gpus, const std::string& claim) {
  const auto undone = undo(gpus, claim);
  if (!undone) return GpuStatus::Transient;
  if (*undone != GpuStatus::Ok) {
    net::log_line(net::LogLevel::Error, "guardian: a GPU's reset failed", {{"gpu", claim}, {"why", name_of(*undone)}});
  }
  return *undone;
}

void forget(const StateFile& state, const std::string& uuid) {
  auto recorded = state.read();
  if (!recorded || recorded->erase(uuid) == 0) return;
  if (const auto written = state.write(*recorded); !written) {
    net::log_line(net::LogLevel::Error, "guardian: the locks could not be recorded",
                  {{"error", written.error().message()}});
  }
}

}  // namespace

int guard(const std::string& library, const std::string& state_file, int patience_s) {
  for (const int signal : kStorm) ::signal(signal, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // the agent's death wakes a guardian that was stopped
  // Opened now, while all is well; tried again later if that fails.
  auto gpus = open_gpus(library);
  std::set<std::string> locked = wait_for_the_end([&](const std::string& uuid) {
    if (!gpus) gpus = open_gpus(library);
    if (!gpus || reset(**gpus, uuid) != GpuStatus::Ok) return false;
    net::log_line(net::LogLevel::Error,
                  "guardian: the agent is stopped or stuck; a GPU's lock is released until it continues",
                  {{"gpu", uuid}});
    return true;
  });

  useconds_t pause = 10'000;
  for (std::int64_t waited = 0;; waited += pause, pause = std::min<useconds_t>(pause * 2, 1'000'000)) {
    if (!gpus) gpus = open_gpus(library);
    std::size_t gone = 0;
    if (gpus) {
      std::erase_if(locked, [&](const std::string& uuid) {
        const GpuStatus status = reset(**gpus, uuid);
        if (status == GpuStatus::Gone) ++gone;
        if (status != GpuStatus::Ok) return false;
        if (!state_file.empty()) forget(StateFile(state_file), uuid);
        return true;
      });
    }
    if (locked.empty()) return 0;
    const bool all_gone = gone == locked.size();
    if (waited >= (all_gone ? std::min(kGonePatience, patience_s * kSecond) : patience_s * kSecond)) break;
    ::usleep(pause);
  }
  for (const auto& uuid : locked) {
    net::log_line(
        net::LogLevel::Error,
        "guardian: a GPU stays as it is; `nvidia-smi -i GPU -rgc` unlocks a clock, `-pl WATTS` sets a power limit",
        {{"gpu", uuid}});
  }
  return 3;
}

}  // namespace wattle::node
