#pragma once
// Reasons of decisions that were taken in other processes.
#include <string>

namespace wattle::gateway {

/// A copy that outlives every record, as a static text does. Bounded: beyond a thousand different ones, the same text
/// for all. Any thread.
[[nodiscard]] const char* kept_reason(const std::string& reason);

}  // namespace wattle::gateway
