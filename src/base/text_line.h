#pragma once
// Line numbers of positions in a text.
#include <algorithm>
#include <cstddef>
#include <string_view>

namespace wattle {

/// The line, from 1, of what stands `bytes` into a text; beyond its end: the last.
[[nodiscard]] inline std::ptrdiff_t line_at(std::string_view text, std::size_t bytes) {
  return 1 + std::ranges::count(text.substr(0, std::min(bytes, text.size())), '\n');
}

}  // namespace wattle
