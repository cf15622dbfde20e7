#pragma once
// A thread that must have a core when it wakes.
#include <cstdint>

namespace wattle::node {

enum class RealTime : std::uint8_t {
  Granted,
  NotPermitted,  ///< no CAP_SYS_NICE, nor a limit (RLIMIT_RTPRIO) that allows it
  Forbidden,     ///< in spite of CAP_SYS_NICE: a control group without real-time budget, or a system-call filter
};

/// The calling thread runs before all ordinary ones of the machine (SCHED_RR, at its lowest priority or `above` that);
/// threads and processes that it starts do not. It should wait for most of its time: the kernel leaves the others 5 %
/// of a core (sched_rt_runtime_us). Where it is not granted nothing has changed.
RealTime run_in_real_time(int above = 0);
[[nodiscard]] const char* text_of(RealTime answer);

}  // namespace wattle::node
