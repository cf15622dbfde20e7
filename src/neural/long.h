#pragma once
// libtorch's sizes are signed.
#include <cstddef>
#include <cstdint>

namespace wattle::neural {

using Long = std::int64_t;

inline Long to_long(std::size_t v) { return static_cast<Long>(v); }

}  // namespace wattle::neural
