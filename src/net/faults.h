#pragma once
// The boundary for exceptions: one that gets this far is a defect of ours, costs its request and nothing else, and is
// counted and logged. Errors we expect are values (base/error.h) and never come here.
#include <cstdint>
#include <string_view>

namespace wattle::net {

/// Inside a catch block: counts the exception being handled and logs what it says with `where` it was caught and the
/// request it cost (X-Request-Id; empty: none). The first hundred are logged, then every hundredth: a fault on each
/// token must not fill a disk.
void count_fault(const char* where, std::string_view request = {}) noexcept;

/// Since the process began, in all of it.
[[nodiscard]] std::int64_t faults() noexcept;

}  // namespace wattle::net
