#pragma once
// Real time, for drivers only: law 1 keeps it out of everything that decides.
#include <chrono>

#include "units/time.h"

namespace wattle::live {

/// Monotone time since the first call in this process.
inline Instant steady_now() {
  static const auto origin = std::chrono::steady_clock::now();
  return Instant(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - origin).count());
}

}  // namespace wattle::live
