#pragma once
// An engine's steps, read off the token streams of its clients: tokens that arrive together come of one step. Pure.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::calibrate {

/// One request as its client saw it.
struct StreamRecord {
  Instant sent;
  std::vector<Instant> tokens;          ///< arrival of each event with text
  std::int64_t prompt_tokens = 0;       ///< as the engine counts them, else as asked for
  std::int64_t completion_tokens = -1;  ///< as the engine counts them; -1: it does not say
  std::string failure;                  ///< empty: it ended as it should
};

/// A run of steps that decode the same requests: step k ends at at[k + 1], began at at[k] and reads
/// kv_first + k x requests tokens of context.
struct Lockstep {
  std::int32_t requests = 0;
  std::int64_t kv_first = 0;
  std::vector<Instant> at;
  double together = 1.0;  ///< share of tokens that came with the others of their step, within half a step
};

/// The steps in which all these streams decode, from the last one's first token to the first one's end. A stream gets
/// one token a step, so a token belongs to the step its place in the stream says; only where each stream stood when the
/// last one began is inferred from time, and of that the median over the whole stream. A step's end is the median
/// arrival of its tokens. None: a stream without two tokens, or no step in common.
[[nodiscard]] std::optional<Lockstep> find_lockstep(std::span<const StreamRecord> streams);

/// Part of a Lockstep as one measurement.
struct Stretch {
  Instant begin, end;
  std::int64_t steps = 0;
  Span step;  ///< median over half-way differences: what a late wake-up of ours or a stall of the engine moves least
  std::int64_t kv_tokens = 0;  ///< mean
};

/// Cuts it into up to `parts` stretches of at least `least` steps each.
[[nodiscard]] std::vector<Stretch> stretches(const Lockstep& run, std::int64_t parts, std::int64_t least);

/// A step of whole prompts, inferred from first tokens that arrive together.
struct PromptStep {
  Instant begin, end;
  std::int32_t requests = 0;
  std::int64_t tokens = 0;
};

/// First tokens less than 2 ms apart come of one step. It began when the one before ended or, on an engine that was
/// idle then, `overhead` after the earliest of its requests was sent: what the way there and back takes without the
/// step. True while prompts are not split over steps.
[[nodiscard]] std::vector<PromptStep> prompt_steps(std::span<const StreamRecord> streams, Span overhead);

}  // namespace wattle::calibrate
