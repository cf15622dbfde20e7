#pragma once
// What a gateway knows of an instance's requests from its own records: dispatched there and not yet left. Exact and
// never stale, whatever the engine reports, and the only source of how long a prompt has waited (engines do not report
// that).
#include <algorithm>
#include <cstdint>

#include "model/delivered.h"
#include "units/time.h"

namespace wattle::control {

/// One instance's work at present.
struct InstanceWork {
  std::int32_t requests = 0;          ///< in the instance
  std::int64_t context_tokens = 0;    ///< of their prompts
  std::int32_t prompts = 0;           ///< of these, without a first token: their prompts are computed here
  std::int64_t prompt_tokens = 0;     ///< of those prompts
  Instant oldest = Instant::never();  ///< earliest arrival among them
  std::int32_t computing = 0;         ///< of those prompts: in the engine's steps, as far as first tokens show
  std::int64_t computing_tokens = 0;  ///< of the prompts being computed
  Instant computing_since = {};       ///< when the first of these steps began, if there are any
  std::int64_t output_tokens = 0;     ///< produced so far by requests that decode; 0 if not counted
  Delivered delivered = {};           ///< by all requests ever in the instance; tokens and gaps if they are counted
  bool operator==(const InstanceWork&) const = default;

  /// A copy with what the relay of its streams counts: `decoding_tokens` of context (prompts and answers) of requests
  /// that decode, and `tokens` after first ones with the `gaps` before them.
  [[nodiscard]] InstanceWork with_streams(std::int64_t decoding_tokens, std::int64_t tokens, Span gaps) const {
    InstanceWork counted = *this;
    counted.delivered.tokens += tokens;
    counted.delivered.gaps = counted.delivered.gaps + gaps;
    counted.output_tokens = std::max<std::int64_t>(0, decoding_tokens - (context_tokens - prompt_tokens));
    return counted;
  }
  /// A copy without the prompts that arrived since the steps in progress began.
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
