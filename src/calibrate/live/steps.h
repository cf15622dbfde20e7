#pragma once
// Infers an engine's steps from its clients' token streams: tokens that arrive together come from one step. Pure.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::calibrate {

/// One request as seen by its client.
struct StreamRecord {
  Instant sent;
  std::vector<Instant> tokens;          ///< arrival time of each event with text
  std::int64_t prompt_tokens = 0;       ///< as counted by the engine, or as requested
  std::int64_t cached_tokens = -1;      ///< of them, from a prefix cache; -1: not reported
  std::int64_t completion_tokens = -1;  ///< as counted by the engine; -1: not reported
  std::string failure;                  ///< empty: it ended normally
};

/// Consecutive steps that decode the same requests: step k lasts from at[k] to at[k + 1] and reads kv_first + k x
/// requests tokens of context.
struct Lockstep {
  std::int32_t requests = 0;
  std::int64_t kv_first = 0;
  std::vector<Instant> at;
  double together = 1.0;  ///< share of tokens that arrived with the others of their step, within half a step
};

/// The steps in which all these streams decode, from the first token of the last stream to the end of the first. Each
/// stream gets one token per step, so a token's position in its stream determines its step; only each stream's position
/// when the last one started is inferred from time, as the median over the whole stream. A step ends at the median
/// arrival of its tokens. None: a stream with fewer than two tokens, or no common step.
[[nodiscard]] std::optional<Lockstep> find_lockstep(std::span<const StreamRecord> streams);

/// A part of a Lockstep as one measurement.
struct Stretch {
  Instant begin, end;
  std::int64_t steps = 0;
  Span step;  ///< median of differences over half the stretch: least affected by a late wake-up here or a stall of the
              ///< engine
  std::int64_t kv_tokens = 0;  ///< mean
};

/// Cuts it into up to `parts` stretches of at least `least` steps each.
[[nodiscard]] std::vector<Stretch> stretches(const Lockstep& run, std::int64_t parts, std::int64_t least);

/// A step that computes prompts.
struct PromptStep {
  Instant begin, end;
  std::int32_t requests = 0;
  std::int64_t tokens = 0;          ///< computed
  std::int64_t context_tokens = 0;  ///< before them, of all requests: from a prefix cache or an earlier chunk
};

/// Infers steps from first tokens: those less than 2 ms apart come from one step. It began when the previous one ended
/// or, if the engine was idle, `overhead` after its earliest request was sent: the round trip without the step. Valid
/// if prompts are not split over steps.
[[nodiscard]] std::vector<PromptStep> prompt_steps(std::span<const StreamRecord> streams, Span overhead);

}  // namespace wattle::calibrate
