#pragma once
// How processes that run until they are asked to end hear of it: SIGINT, SIGTERM, and SIGHUP (a terminal that closes)
// where it was not ignored at the start (nohup). What fails to be written is no reason to end: SIGPIPE and SIGXFSZ are
// ignored from then on, and the write says so itself.
#include <signal.h>

#include <atomic>

namespace wattle::apps {

enum class SecondSignal { IsTheSame, EndsAtOnce };

/// From now on the first such signal is what end_wanted() says.
void hear_end_signals(SecondSignal second = SecondSignal::IsTheSame);
const std::atomic<bool>& end_wanted();
/// As if such a signal had come.
void want_end();
/// For sigwait(). Blocked in this thread and in those that it starts from now on.
sigset_t block_end_signals();

}  // namespace wattle::apps
