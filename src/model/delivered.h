#pragma once
// What an instance has delivered, counted from its streams: all that is known of its progress if it reports no steps.
#include <cstdint>

#include "units/time.h"

namespace wattle {

/// Sums that only grow; the difference of two is what was delivered between them.
struct Delivered {
  std::int64_t prompts = 0;        ///< computed prompts, counted by first tokens
  std::int64_t prompt_tokens = 0;  ///< of these prompts
  Span waits = {};                 ///< sum over these of the time from dispatch to first token
  Span computing = {};             ///< the part of that after the previous first token
  std::int64_t tokens = 0;         ///< other than first ones
  Span gaps = {};                  ///< sum of the gaps before these

  [[nodiscard]] Delivered since(const Delivered& earlier) const {
    return {prompts - earlier.prompts, prompt_tokens - earlier.prompt_tokens,
            waits - earlier.waits,     computing - earlier.computing,
            tokens - earlier.tokens,   gaps - earlier.gaps};
  }
  bool operator==(const Delivered&) const = default;
};

}  // namespace wattle
