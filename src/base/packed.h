#pragma once
// Recognises compressed files in the place of text, such as downloads that were not unpacked.
#include <string>
#include <string_view>

#include "base/error.h"

namespace wattle {

/// Errors: the bytes are gzip's, zstd's or zip's.
[[nodiscard]] inline Result<void> check_unpacked(std::string_view bytes, const std::string& name) {
  for (const std::string_view magic : {"\x1f\x8b", "\x28\xb5\x2f\xfd", "PK\x03\x04"}) {
    if (bytes.starts_with(magic)) return bad_input(name, "is compressed (gzip, zstd or zip); unpack it first");
  }
  return {};
}

}  // namespace wattle
