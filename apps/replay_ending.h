#pragma once
// A replay that the user interrupts: reports the requests sent so far, and that the replay is incomplete.
#include <fmt/format.h>

#include "end_signals.h"
#include "loadgen/replay.h"

namespace wattle::apps {

/// The state after SIGINT and SIGTERM so far, for a process that distinguishes the second (SecondSignal::IsReported).
inline loadgen::Ending replay_ending() {
  if (end_wanted_at_once()) return loadgen::Ending::AtOnce;
  return end_wanted() ? loadgen::Ending::Drain : loadgen::Ending::None;
}

inline void print_interrupted(const loadgen::ReplayReport& report) {
  if (!report.interrupted) return;
  fmt::print("note: interrupted after {:.1f} s of the trace; {} requests were cut off, and count as not attained\n",
             report.sent.seconds(), report.summary.requests.cancelled);
}

}  // namespace wattle::apps
