#pragma once
// Tests only: waiting for what another thread does, with an end.
#include <fmt/format.h>

#include <source_location>
#include <thread>

#include "base/check.h"
#include "net/clock.h"

namespace wattle {

/// Returns once `seen` holds; after half a minute the test cannot go on, and ends here.
template <typename Seen>
void await(const Seen& seen, const std::source_location& here = std::source_location::current()) {
  const Instant end = net::steady_now() + Span::s(30);
  while (!seen()) {
    std::this_thread::yield();
    const bool in_time = net::steady_now() < end;
    if (!in_time) fmt::print(stderr, "{}:{}: waited in vain\n", here.file_name(), here.line());
    WATTLE_CHECK(in_time, "what a test waits for comes");
  }
}

}  // namespace wattle
