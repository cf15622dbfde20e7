#pragma once
// Runs the independent iterations of a loop on several threads.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace wattle {

/// Calls work(i) once for each i below `count`, each as soon as one of at most `threads` threads (the caller's among
/// them) is free, and returns when all have ended. What a call throws, the caller gets (the first of them), and no
/// further call begins.
template <typename Work>
void side_by_side(unsigned threads, std::size_t count, Work&& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  const auto take_turns = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard guard(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < std::min<std::size_t>(threads, count); ++t) others.emplace_back(take_turns);
    take_turns();
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace wattle
