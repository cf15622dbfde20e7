#pragma once
// A request as an engine gets it, and its events.
#include <cstdint>

#include "model/prompt_blocks.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::engine {

/// The driver's own handle of a request; echoed in events.
using Tag = std::uint32_t;

/// A request with its true lengths.
struct Job {
  Tag tag = 0;
  RequestId id;
  Instant arrival;
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 1;   ///< truth, >= 1
  bool kv_ready = false;            ///< decode leg: the prompt's KV and the first token exist already
  std::int32_t produced = 0;        ///< output tokens of an earlier life here or elsewhere, which are computed again
  Instant last_token;               ///< of those
  Span itl = Span::max();           ///< its objective for a gap between two tokens; max(): none
  PromptContent content = nullptr;  ///< null: its KV blocks are shared with no other request
};

enum class EventKind : std::uint8_t {
  FirstToken,  ///< at a prefill instance the KV stays until release()
  TakenOver,   ///< with Job::kv_ready: it decodes from now on, and its client gets the first token
  Finished,    ///< all output tokens produced (after FirstToken, possibly at the same instant)
  Cancelled,   ///< a cancelled request has left; when it was part of a step, at that step's end
};

struct Event {
  EventKind kind;
  Tag tag;
  Instant at;
  Instant prefill_start;  ///< when its first prompt token was scheduled here
  std::int32_t output_tokens = 0;
  std::int32_t preemptions = 0;
  std::int64_t gaps_within_itl = 0;  ///< number of gaps at this instance within Job::itl
  Span longest_gap;                  ///< of those gaps
  Instant last_token;                ///< meaningless before the first
  std::int32_t cached_tokens = 0;    ///< of the prompt, not computed because the KV of an earlier request was used
};

/// A request's part of one step's prompt tokens.
struct PrefillShare {
  Tag tag;
  std::int64_t tokens;
};

}  // namespace wattle::engine
