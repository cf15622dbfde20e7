#pragma once
// The boundary for exceptions: one that gets this far is a bug in this program; it costs only its request and is
// counted and logged. Expected errors are values (base/error.h) and never come here.
#include <cstdint>
#include <string_view>

namespace wattle::net {

/// Call inside a catch block: counts the exception being handled and logs its text with `where` it was caught and the
/// request that failed (X-Request-Id; empty: none). The first hundred are logged, then every hundredth, so that a fault
/// on each token does not fill the disk.
void count_fault(const char* where, std::string_view request = {}) noexcept;

/// Number of such exceptions in this process so far.
[[nodiscard]] std::int64_t faults() noexcept;

}  // namespace wattle::net
