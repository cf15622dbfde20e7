#pragma once
// The decoding requests of an instance: each step gives each of them a token. Internal to engine/.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/kv_blocks.h"
#include "engine/replica_observer.h"
#include "engine/slots.h"
#include "engine/step_run.h"

namespace wattle::engine {

class DecodeSet {
 public:
  explicit DecodeSet(std::int32_t block_size);

  [[nodiscard]] std::int32_t size() const { return size_; }
  [[nodiscard]] std::int64_t kv_tokens() const { return kv_tokens_; }  ///< as of the last applied step
  [[nodiscard]] std::int64_t steps() const { return steps_; }          ///< ever run
  [[nodiscard]] SlotIndex oldest() const { return oldest_; }  ///< in order of joining; Slot::next is the following one
  [[nodiscard]] SlotIndex newest() const { return newest_; }
  /// KV tokens of this decoding request.
  [[nodiscard]] std::int64_t resident_tokens(const Slot& slot) const { return slot.prefilled + (steps_ - slot.joined); }

  void join(Slots& slots, SlotIndex index);
  /// Updates its tokens and blocks.
  void leave(Slots& slots, SlotIndex index, const KvBlocks& kv);

  /// Blocks that `steps` more steps need.
  [[nodiscard]] std::int64_t blocks_needed(std::int64_t steps) const;
  /// The most steps, up to `limit`, for which `free` blocks suffice.
  [[nodiscard]] std::int64_t affordable_steps(std::int64_t limit, std::int64_t free) const;
  /// Steps until the next request finishes. Precondition: not empty.
  [[nodiscard]] std::int64_t steps_to_finish(const Slots& slots);
  /// A request whose last step has been run; kNoSlot: none. The caller still calls leave().
  [[nodiscard]] SlotIndex pop_finished(const Slots& slots);

  /// The set begins to decode at this instant; none of its requests has had a token here before.
  void restart(Int128 at) { last_token_ = at; }
  /// The last applied step gave the request this many tokens beyond one. Returns the number of blocks that they need.
  std::int64_t accept(Slots& slots, SlotIndex index, std::int32_t tokens, const KvBlocks& kv);
  /// Tokens that this decoding request still has to produce.
  [[nodiscard]] std::int32_t tokens_left(const Slot& slot) const {
    return slot.job.output_tokens - slot.generated - static_cast<std::int32_t>(steps_ - slot.joined);
  }
  /// Blocks needed if each request gets this many more tokens, limited by what it has left.
  [[nodiscard]] std::int64_t blocks_for(const Slots& slots, std::int32_t tokens, const KvBlocks& kv) const;
  /// Reports the gaps and counts them in tokens() and token_gaps().
  void report_gaps(const TokenGaps& gaps, ReplicaObserver& observer);
  /// Number of tokens after first ones, over all steps.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Sum of the gaps before those tokens.
  [[nodiscard]] Span token_gaps() const { return Span(static_cast<std::int64_t>(token_gaps_ >> kTimeFractionBits)); }
  /// The first `steps` of `run` are done. Does not change KvBlocks.
  void advance(const StepRun& run, std::int64_t steps, Slots& slots, ReplicaObserver& observer);

 private:
  struct Finish {
    std::int64_t step;
    SlotIndex slot;
    std::uint32_t epoch;
    static bool later(const Finish& a, const Finish& b) { return a.step != b.step ? a.step > b.step : a.slot > b.slot; }
  };
  /// A gap that is longer than any in a later step.
  struct LongGap {
    std::int64_t step;
    std::int64_t gap;
  };
  /// The limit for a step's gaps. Requests with equal objectives share one, so a step's cost depends on the number of
  /// distinct objectives, not of requests.
  struct Limit {
    Int128 itl;                   ///< fixed point
    std::int64_t good_steps = 0;  ///< number of steps so far with a gap within it
    std::int64_t settled = 0;     ///< number of its requests that have had a token here
  };
  [[nodiscard]] std::size_t limit_of(const Job& job);
  /// Counts gaps of the settled requests.
  void count(TokenGaps gaps, ReplicaObserver& observer);
  [[nodiscard]] std::size_t phase_of(const Slot& slot) const;
  void note_gap(std::int64_t step, std::int64_t gap, const Slots& slots);
  void pop_finish();
  void push_finish(const Slot& slot, SlotIndex index);

  std::int32_t size_ = 0;
  std::int64_t kv_tokens_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t tokens_ = 0;
  Int128 token_gaps_ = 0;
  std::vector<Limit> limits_;        ///< of all requests that ever joined
  Int128 last_token_ = 0;            ///< when the set last got a token
  std::vector<std::int32_t> phase_;  ///< number of requests by the step (mod block size) that needs a new block
  std::size_t phase_now_ = 0;        ///< the next step's
  std::vector<Finish> finishes_;     ///< a heap, next first
  std::vector<SlotIndex> fresh_;     ///< requests that have joined since the last applied step
  std::vector<LongGap> long_gaps_;   ///< steps ascending, gaps descending: for binary search
  SlotIndex oldest_ = kNoSlot;
  SlotIndex newest_ = kNoSlot;
};

}  // namespace wattle::engine
