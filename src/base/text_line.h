#pragma once
// Lines of a text.
#include <algorithm>
#include <cstddef>
#include <string_view>

namespace wattle {

/// Takes the first line off `text` and returns it without its end (LF or CR LF). Empty too once nothing is left.
inline std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
}

/// The line, from 1, of what stands `bytes` into a text; beyond its end: the last.
[[nodiscard]] inline std::ptrdiff_t line_at(std::string_view text, std::size_t bytes) {
  return 1 + std::ranges::count(text.substr(0, std::min(bytes, text.size())), '\n');
}

}  // namespace wattle
