#pragma once
// Fields of lines without surrounding blanks.
#include <string_view>

namespace wattle {

/// Without the spaces and tabs around it.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

}  // namespace wattle
