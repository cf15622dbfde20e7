#include "net/faults.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>

namespace wattle::net {

namespace {
constexpr std::int64_t kLoggedInFull = 100;
std::atomic<std::int64_t> count{0};

void log(const char* where, const char* what, std::int64_t number) noexcept {
  if (number > kLoggedInFull && number % kLoggedInFull != 0) return;
  try {
    fmt::print(stderr, "wattle: internal error {} in {}: {}\n", number, where, what);
  } catch (...) {  // stderr is gone; the count is what is left
    return;
  }
}
}  // namespace

void count_fault(const char* where) noexcept {
  const std::int64_t number = count.fetch_add(1, std::memory_order_relaxed) + 1;
  try {
    throw;
  } catch (const std::exception& error) {
    log(where, error.what(), number);
  } catch (...) {
    log(where, "not a std::exception", number);
  }
}

std::int64_t faults() noexcept { return count.load(std::memory_order_relaxed); }

}  // namespace wattle::net
