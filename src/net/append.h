#pragma once
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>

namespace wattle::net {

/// Appends all of them, with one check of the capacity.
inline void append(std::string& to, std::initializer_list<std::string_view> pieces) {
  const std::size_t before = to.size();
  std::size_t after = before;
  for (const std::string_view piece : pieces) after += piece.size();
  to.resize_and_overwrite(after, [&](char* out, std::size_t) {
    char* at = out + before;
    for (const std::string_view piece : pieces) {
      if (!piece.empty()) std::memcpy(at, piece.data(), piece.size());
      at += piece.size();
    }
    return after;
  });
}

}  // namespace wattle::net
