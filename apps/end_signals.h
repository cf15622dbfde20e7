#pragma once
// Orderly termination of long-running processes: SIGINT, SIGTERM, and SIGHUP (a closed terminal) unless it was ignored
// at the start (nohup). Failed writes do not end the process: SIGPIPE and SIGXFSZ are ignored, and the write returns
// the error.
#include <signal.h>

#include <atomic>

#include "command_line.h"

namespace wattle::apps {

/// IsReported: by end_wanted_at_once(); the third ends the process.
enum class SecondSignal { IsTheSame, EndsAtOnce, IsReported };

/// Installs the handlers: end_wanted() then returns the first such signal.
void handle_end_signals(SecondSignal second = SecondSignal::IsTheSame);
const std::atomic<bool>& end_wanted();
[[nodiscard]] bool end_wanted_at_once();
/// Has the effect of such a signal.
void want_end();
/// For sigwait(). Blocked in this thread and in those that it starts from now on.
sigset_t block_end_signals();
/// Whether one of these signals, blocked in all threads, is pending; consumes it.
[[nodiscard]] bool has_come(const sigset_t& signals);

/// --drain-s: running streams continue for so long after the first signal; a second signal ends them.
Flag add_drain_flag(Command& command, double& seconds);

}  // namespace wattle::apps
