#pragma once
// What a gateway knows of an instance's requests by its own books: dispatched there, not yet left. Exact and never
// stale, whatever the engine reports, and the only source of how long a prompt has waited (no engine says that).
#include <algorithm>
#include <cstdint>

#include "model/delivered.h"
#include "units/time.h"

namespace wattle::control {

/// Of one instance, now.
struct InstanceWork {
  std::int32_t requests = 0;          ///< in it
  std::int64_t context_tokens = 0;    ///< of their prompts
  std::int32_t prompts = 0;           ///< of these without a first token: theirs is to be computed here
  std::int64_t prompt_tokens = 0;     ///< of those
  Instant oldest = Instant::never();  ///< earliest arrival among those
  std::int32_t computing = 0;         ///< of those: in the engine's steps, as far as first tokens tell
  std::int64_t computing_tokens = 0;  ///< of their prompts
  Instant computing_since = {};       ///< when the first of these steps began, where there are any
  std::int64_t output_tokens = 0;     ///< so far, of those that decode; 0 where nobody counts
  Delivered delivered = {};           ///< by all that ever were in it; tokens and gaps where somebody counts them
  bool operator==(const InstanceWork&) const = default;

  /// The same, where who relays its streams counts so much context in those that decode (prompts and answers), and
  /// that many tokens after first ones, with the gaps before them.
  [[nodiscard]] InstanceWork with_streams(std::int64_t decoding_tokens, std::int64_t tokens, Span gaps) const {
    InstanceWork counted = *this;
    counted.delivered.tokens += tokens;
    counted.delivered.gaps = counted.delivered.gaps + gaps;
    counted.output_tokens = std::max<std::int64_t>(0, decoding_tokens - (context_tokens - prompt_tokens));
    return counted;
  }
  /// The same without the prompts that have come since the steps in progress began.
  [[nodiscard]] InstanceWork begun() const {
    InstanceWork those = *this;
    those.requests -= prompts - computing;
    those.context_tokens -= prompt_tokens - computing_tokens;
    those.prompts = computing;
    those.prompt_tokens = computing_tokens;
    return those;
  }
};

}  // namespace wattle::control
