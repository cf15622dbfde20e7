#pragma once
// Tests only: waiting for what another thread does, with an end.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <source_location>
#include <thread>

namespace wattle {

/// Returns once `seen` holds; after half a minute the test cannot go on, and ends here.
template <typename Seen>
void await(const Seen& seen, const std::source_location& here = std::source_location::current()) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!seen()) {
    std::this_thread::yield();
    if (std::chrono::steady_clock::now() < end) continue;
    std::fprintf(stderr, "%s:%u: waited in vain\n", here.file_name(), here.line());
    std::abort();
  }
}

}  // namespace wattle
