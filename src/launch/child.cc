#include "launch/child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace wattle::launch {

namespace {

/// From its pid file to its own first instruction, on a busy machine.
constexpr Span kStartMost = Span::s(1);

/// The last line of its log, for the error: the log is removed with the run's folder.
std::string last_line(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::string last = "it printed nothing";
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

/// The arguments of a process, each followed by a 0; empty if there is none, or a zombie, or one within its exec.
std::string command_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Whether there is such a process, and no zombie.
bool lives(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  const std::string stat{std::istreambuf_iterator<char>(in), {}};
  const std::size_t name_end = stat.rfind(") ");
  return name_end != std::string::npos && stat[name_end + 2] != 'Z' && stat[name_end + 2] != 'X';
}

/// After fork: calls that are safe there alone.
void write_pid(int file) {
  char digits[20];
  std::size_t n = sizeof(digits);
  digits[--n] = '\n';
  for (pid_t rest = getpid(); rest > 0; rest /= 10) digits[--n] = static_cast<char>('0' + rest % 10);
  if (write(file, digits + n, sizeof(digits) - n) < 0) _exit(127);
}

/// A descriptor that is closed with it.
struct File {
  explicit File(int descriptor) : fd(descriptor) {}
  ~File() {
    if (fd >= 0) close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd;
};

int create(const std::string& path) { return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644); }

}  // namespace

Result<Child> Child::start(const std::string& name, const std::vector<std::string>& arguments,
                           const std::string& log_file, const std::optional<Trace>& trace) {
  std::vector<std::string> owned{"wattle"};
  owned.insert(owned.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& argument : owned) argv.push_back(argument.data());
  argv.push_back(nullptr);

  const File log(create(log_file));
  if (log.fd < 0) return external_failure(log_file, std::strerror(errno));
  int pipe_ends[2] = {-1, -1};
  if (!trace && pipe2(pipe_ends, O_CLOEXEC) != 0) return external_failure(name, std::strerror(errno));
  File from(pipe_ends[0]);
  const File into(trace ? create(trace->output_file) : pipe_ends[1]);
  const File pid_file(trace ? create(trace->pid_file) : -1);
  if (into.fd < 0 || (trace && pid_file.fd < 0)) return external_failure(trace->pid_file, std::strerror(errno));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    if (trace) {
      setsid();
      write_pid(pid_file.fd);
    } else {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(127);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int ours : {SIGPIPE, SIGXFSZ}) signal(ours, SIG_DFL);  // what we ignore is not the child's to inherit
    dup2(into.fd, STDOUT_FILENO);
    dup2(log.fd, STDERR_FILENO);
    // A child may outlive us: what we listen on is not to stay open with it.
    close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  if (pid < 0) return external_failure(name, std::strerror(errno));
  Child child(name, log_file, pid, std::exchange(from.fd, -1));
  if (trace) child.output_file_ = trace->output_file;
  return child;
}

std::optional<Child> Child::adopt(const std::string& name, const std::vector<std::string>& arguments,
                                  const std::string& log_file, const Trace& trace) {
  pid_t pid = -1;
  std::string command;
  const auto found = [&] {
    std::ifstream(trace.pid_file) >> pid;
    command = command_of(pid);
    return std::ranges::all_of(arguments, [&command](const std::string& argument) {
      return ('\0' + command).find('\0' + argument + '\0') != std::string::npos;
    });
  };
  // Our predecessor may have died while it started this one, which has not written its id yet, or is still a copy of
  // it, or has no arguments yet: exec gives it its memory before them.
  for (std::int64_t waited_ms = 0; !found(); waited_ms += 10) {
    const bool starts = access(trace.pid_file.c_str(), F_OK) == 0 && (pid <= 0 || lives(pid));
    if (!starts || waited_ms * 1'000'000 >= kStartMost.ns()) return std::nullopt;
    usleep(10'000);
  }
  Child child(name, log_file, pid, -1);
  child.output_file_ = trace.output_file;
  child.command_ = std::move(command);
  return child;
}

Child::Child(Child&& other) noexcept
    : name_(std::move(other.name_)),
      log_(std::move(other.log_)),
      pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      output_file_(std::move(other.output_file_)),
      status_(other.status_),
      command_(std::move(other.command_)) {}

Child::~Child() {
  stop(Span::s(2));
  if (output_ >= 0) close(output_);
}

Result<std::string> Child::first_line(Span timeout) {
  std::string line;
  for (std::int64_t waited_ms = 0; output_ < 0; waited_ms += 10) {
    std::ifstream in(output_file_);
    if (std::getline(in, line) && !in.eof()) return line;  // whole: its end of line is there
    if (!running()) return external_failure(name_, "ended at once: " + last_line(log_));
    if (waited_ms * 1'000'000 >= timeout.ns()) {
      return external_failure(name_, fmt::format("printed nothing for {:.0f} s; see {}", timeout.seconds(), log_));
    }
    usleep(10'000);
  }
  for (std::int64_t waited_ms = 0; waited_ms * 1'000'000 < timeout.ns(); waited_ms += 50) {
    pollfd poller{output_, POLLIN, 0};
    if (poll(&poller, 1, 50) <= 0) continue;
    char c = 0;
    ssize_t got = 0;
    while ((got = read(output_, &c, 1)) == 1 && c != '\n') line += c;
    if (got == 1) return line;
    return external_failure(name_, "ended at once: " + last_line(log_));
  }
  return external_failure(name_, fmt::format("printed nothing for {:.0f} s; see {}", timeout.seconds(), log_));
}

bool Child::running() {
  if (pid_ < 0) return false;
  int status = 0;
  const pid_t ended = command_.empty() ? waitpid(pid_, &status, WNOHANG) : 0;
  const bool runs = command_.empty() ? ended == 0 : command_of(pid_) == command_;
  if (ended == pid_) status_ = status;
  if (!runs) pid_ = -1;
  return runs;
}

std::string Child::end() const {
  std::string how = "ended for an unknown reason";
  if (status_ && WIFEXITED(*status_)) how = fmt::format("exited with code {}", WEXITSTATUS(*status_));
  if (status_ && WIFSIGNALED(*status_)) {
    how = fmt::format("ended by signal {} ({})", WTERMSIG(*status_), strsignal(WTERMSIG(*status_)));
  }
  return fmt::format("{}; its last words: {}; see {}", how, last_line(log_), log_);
}

std::vector<std::string> Child::arguments() const {
  std::vector<std::string> all;
  std::istringstream words(command_);
  for (std::string word; std::getline(words, word, '\0');) all.push_back(word);
  if (!all.empty()) all.erase(all.begin());  // its own name
  return all;
}

void Child::wait_for_end(Span grace) {
  for (std::int64_t waited = 0; waited < grace.ns() && running(); waited += 20'000'000) usleep(20'000);
}

void Child::stop(Span grace) {
  if (!running()) return;
  kill(pid_, SIGTERM);
  wait_for_end(grace);
  if (!running()) return;
  kill(pid_, SIGKILL);
  wait_for_end(Span::s(10));
  pid_ = -1;
}

}  // namespace wattle::launch
