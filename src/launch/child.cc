#include "launch/child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

namespace wattle::launch {

namespace {

/// What it said last: its folder goes with the run, so the reason must be given here.
std::string last_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::string last = "it said nothing";
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

Result<Child> Child::start(const std::string& name, const std::vector<std::string>& arguments,
                           const std::string& log_file) {
  std::vector<std::string> owned{"wattle"};
  owned.insert(owned.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& argument : owned) argv.push_back(argument.data());
  argv.push_back(nullptr);

  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return external_failure(name, std::strerror(errno));
  const int log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (log < 0) {
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return external_failure(log_file, std::strerror(errno));
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  close(log);
  if (pid < 0) {
    close(pipe_ends[0]);
    return external_failure(name, std::strerror(errno));
  }
  return Child(name, log_file, pid, pipe_ends[0]);
}

Child::Child(Child&& other) noexcept
    : name_(std::move(other.name_)),
      log_(std::move(other.log_)),
      pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)) {}

Child::~Child() {
  stop(Span::s(2));
  if (output_ >= 0) close(output_);
}

Result<std::string> Child::first_line(Span timeout) {
  std::string line;
  for (std::int64_t waited_ms = 0; waited_ms * 1'000'000 < timeout.ns(); waited_ms += 50) {
    pollfd poller{output_, POLLIN, 0};
    if (poll(&poller, 1, 50) <= 0) continue;
    char c = 0;
    ssize_t got = 0;
    while ((got = read(output_, &c, 1)) == 1 && c != '\n') line += c;
    if (got == 1) return line;
    return external_failure(name_, "ended at once: " + last_line(log_));
  }
  return external_failure(name_, fmt::format("said nothing for {:.0f} s; see {}", timeout.seconds(), log_));
}

bool Child::running() {
  if (pid_ < 0) return false;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

void Child::stop(Span grace) {
  if (!running()) return;
  kill(pid_, SIGTERM);
  for (std::int64_t waited = 0; waited < grace.ns() && running(); waited += 20'000'000) usleep(20'000);
  if (!running()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace wattle::launch
