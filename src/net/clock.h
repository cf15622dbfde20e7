#pragma once
// Real time, for drivers only: law 1 keeps it out of everything that decides.
#include <time.h>

#include <chrono>
#include <cstdint>

#include "units/time.h"

namespace wattle::net {

/// Monotone time since the first call in this process.
inline Instant steady_now() {
  static const auto origin = std::chrono::steady_clock::now();
  return Instant(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - origin).count());
}

/// Wall-clock time in nanoseconds since 1970, for what leaves this process. It may jump.
inline std::int64_t unix_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// The wall clock at Instant(), by the present offset between the clocks: it changes when the time of day is set.
inline std::int64_t unix_ns_at_zero() { return unix_now_ns() - steady_now().ns(); }

/// The end of `wait` from now on CLOCK_MONOTONIC, for system calls that wait until then.
inline timespec monotonic_after(Span wait) {
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const std::int64_t ns = until.tv_nsec + wait.ns();
  until.tv_sec += ns / kNsPerS;
  until.tv_nsec = ns % kNsPerS;
  return until;
}

/// CPU time of the calling thread, independent of what else the machine runs.
inline Span thread_cpu() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return Span::s(t.tv_sec) + Span(t.tv_nsec);
}

}  // namespace wattle::net
