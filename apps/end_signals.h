#pragma once
// How processes that run until they are asked to end hear of it: SIGINT, SIGTERM, and SIGHUP (a terminal that closes)
// where it was not ignored at the start (nohup). What fails to be written is no reason to end: SIGPIPE and SIGXFSZ are
// ignored from then on, and the write says so itself.
#include <signal.h>

#include <atomic>

#include "command_line.h"

namespace wattle::apps {

/// IsHeard: by end_wanted_at_once(); the third ends the process.
enum class SecondSignal { IsTheSame, EndsAtOnce, IsHeard };

/// From now on the first such signal is what end_wanted() says.
void hear_end_signals(SecondSignal second = SecondSignal::IsTheSame);
const std::atomic<bool>& end_wanted();
[[nodiscard]] bool end_wanted_at_once();
/// As if such a signal had come.
void want_end();
/// For sigwait(). Blocked in this thread and in those that it starts from now on.
sigset_t block_end_signals();
/// One of these, blocked in all threads, has come since it was last waited for.
[[nodiscard]] bool has_come(const sigset_t& signals);

/// --drain-s of a process that lets running streams go on when the first signal comes, and ends them at the second.
Flag add_drain_flag(Command& command, double& seconds);

}  // namespace wattle::apps
