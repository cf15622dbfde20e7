#pragma once
// Tests only: waiting for what another thread or process does, with an end.
#include <chrono>
#include <source_location>
#include <thread>

#include "base/check.h"
#include "net/clock.h"

namespace wattle {

/// Whether `holds` does within `most`: it is asked every millisecond, and the wait ends as soon as it does.
template <typename Holds>
[[nodiscard]] bool eventually(const Holds& holds, Span most = Span::s(20)) {
  const Instant end = net::steady_now() + most;
  while (!holds()) {
    if (net::steady_now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// For what a test cannot go on without: it ends where `holds` does not within half a minute.
template <typename Holds>
void await(const Holds& holds, const std::source_location& here = std::source_location::current()) {
  if (!eventually(holds, Span::s(30))) {
    check_failed("holds()", here.file_name(), static_cast<int>(here.line()), "what a test waits for comes");
  }
}

}  // namespace wattle
