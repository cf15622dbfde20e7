#pragma once
// A replay that a person ends: what was sent is measured and said, and that it was not all.
#include <fmt/format.h>

#include "end_signals.h"
#include "loadgen/replay.h"

namespace wattle::apps {

/// As SIGINT and SIGTERM have it by now; of a process that hears the second (SecondSignal::IsHeard).
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
