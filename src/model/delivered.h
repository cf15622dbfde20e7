#pragma once
// What an instance's streams have brought, counted outside of it: all that is known of its progress where it reports no
// steps.
#include <cstdint>

#include "units/time.h"

namespace wattle {

/// Sums that only grow, so that two of them say what came between.
struct Delivered {
  std::int64_t prompts = 0;        ///< first tokens: prompts computed
  std::int64_t prompt_tokens = 0;  ///< of these prompts
  Span waits = {};                 ///< of these, from dispatch to the first token
  Span computing = {};             ///< of that, what was after the first token before
  std::int64_t tokens = 0;         ///< after first ones
  Span gaps = {};                  ///< before these

  [[nodiscard]] Delivered since(const Delivered& earlier) const {
    return {prompts - earlier.prompts, prompt_tokens - earlier.prompt_tokens,
            waits - earlier.waits,     computing - earlier.computing,
            tokens - earlier.tokens,   gaps - earlier.gaps};
  }
  bool operator==(const Delivered&) const = default;
};

}  // namespace wattle
