#include "end_signals.h"

#include <vector>

namespace wattle::apps {

namespace {

std::atomic<bool> wanted{false};
std::atomic<bool> wanted_at_once{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch it");

void outlive_failed_writes() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

std::vector<int> end_signals() {
  std::vector<int> all{SIGINT, SIGTERM};
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) all.push_back(SIGHUP);
  return all;
}

}  // namespace

const std::atomic<bool>& end_wanted() { return wanted; }

bool end_wanted_at_once() { return wanted_at_once; }

void want_end() { wanted = true; }

void handle_end_signals(SecondSignal second) {
  outlive_failed_writes();
  struct sigaction action {};
  action.sa_handler = [](int) { wanted = true; };
  if (second == SecondSignal::IsReported) {
    action.sa_handler = [](int) {
      if (!wanted.exchange(true)) return;
      wanted_at_once = true;
      for (const int one : {SIGINT, SIGTERM}) signal(one, SIG_DFL);
    };
  }
  action.sa_flags = second == SecondSignal::EndsAtOnce ? static_cast<int>(SA_RESETHAND) : 0;
  for (const int one : end_signals()) sigaction(one, &action, nullptr);
}

sigset_t block_end_signals() {
  outlive_failed_writes();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int one : end_signals()) sigaddset(&signals, one);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

bool has_come(const sigset_t& signals) {
  const timespec no_time{};
  return sigtimedwait(&signals, nullptr, &no_time) > 0;
}

Flag add_drain_flag(Command& command, double& seconds) {
  return command
      .add_option("--drain-s", seconds,
                  "how long running streams may continue after SIGINT/SIGTERM; a second signal ends them immediately")
      .check(non_negative_time())
      .capture_default_str();
}

}  // namespace wattle::apps
