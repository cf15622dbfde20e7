#pragma once
// Threads that need a core as soon as they wake.
#include <cstdint>

namespace wattle::node {

enum class RealTime : std::uint8_t {
  Granted,
  NotPermitted,  ///< neither CAP_SYS_NICE nor a sufficient limit (RLIMIT_RTPRIO)
  Forbidden,     ///< despite CAP_SYS_NICE: a control group without real-time budget, or a system-call filter
};

/// The calling thread gets priority over all ordinary threads of the machine (SCHED_RR, at its lowest priority or
/// `above` that); threads and processes that it starts do not. It should mostly wait: the kernel leaves the others 5 %
/// of a core (sched_rt_runtime_us). If not granted, nothing changes.
RealTime run_in_real_time(int above = 0);
[[nodiscard]] const char* text_of(RealTime answer);

}  // namespace wattle::node
