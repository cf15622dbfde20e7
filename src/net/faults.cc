#include "net/faults.h"

#include <atomic>
#include <exception>

#include "net/log.h"

namespace wattle::net {

namespace {
constexpr std::int64_t kLoggedInFull = 100;
std::atomic<std::int64_t> count{0};

void log(const char* where, const char* what, std::int64_t number, std::string_view request) noexcept {
  if (number > kLoggedInFull && number % kLoggedInFull != 0) return;
  try {
    const LogField fields[] = {{"number", number},
                               {"where", std::string_view(where)},
                               {"error", std::string_view(what)},
                               {"request_id", request}};
    log_line(LogLevel::Error, "internal error", std::span(fields).first(request.empty() ? 3 : 4));
  } catch (...) {  // stderr is gone; the count is what is left
    return;
  }
}
}  // namespace

void count_fault(const char* where, std::string_view request) noexcept {
  const std::int64_t number = count.fetch_add(1, std::memory_order_relaxed) + 1;
  try {
    throw;
  } catch (const std::exception& error) {
    log(where, error.what(), number, request);
  } catch (...) {
    log(where, "not a std::exception", number, request);
  }
}

std::int64_t faults() noexcept { return count.load(std::memory_order_relaxed); }

}  // namespace wattle::net
