#pragma once
// The requests of an instance that decode: each step gives every one of them a token. Internal to engine/.
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
  [[nodiscard]] SlotIndex oldest() const { return oldest_; }           ///< by joining; Slot::next leads on
  [[nodiscard]] SlotIndex newest() const { return newest_; }
  /// KV tokens of this decoding request.
  [[nodiscard]] std::int64_t resident_tokens(const Slot& slot) const { return slot.prefilled + (steps_ - slot.joined); }

  void join(Slots& slots, SlotIndex index);
  /// Its tokens and blocks are brought up to date.
  void leave(Slots& slots, SlotIndex index, const KvBlocks& kv);

  /// Blocks that so many more steps take.
  [[nodiscard]] std::int64_t blocks_needed(std::int64_t steps) const;
  /// The most steps, up to `limit`, that so many free blocks allow.
  [[nodiscard]] std::int64_t affordable_steps(std::int64_t limit, std::int64_t free) const;
  /// Until the next of them finishes. Precondition: not empty.
  [[nodiscard]] std::int64_t steps_to_finish(const Slots& slots);
  /// One whose last step has been run; kNoSlot: none. It is still to leave().
  [[nodiscard]] SlotIndex pop_finished(const Slots& slots);

  /// The set begins to decode at this instant; nobody in it has had a token here before.
  void restart(Int128 at) { last_token_ = at; }
  /// It got so many tokens more with the last applied step than one. How many blocks they take.
  std::int64_t accept(Slots& slots, SlotIndex index, std::int32_t tokens, const KvBlocks& kv);
  /// Of this decoding request.
  [[nodiscard]] std::int32_t tokens_left(const Slot& slot) const {
    return slot.job.output_tokens - slot.generated - static_cast<std::int32_t>(steps_ - slot.joined);
  }
  /// Blocks that so many more tokens of each take, none having more than it has left.
  [[nodiscard]] std::int64_t blocks_for(const Slots& slots, std::int32_t tokens, const KvBlocks& kv) const;
  /// Says it and counts it in tokens() and token_gaps().
  void report_gaps(const TokenGaps& gaps, ReplicaObserver& observer);
  /// After first ones, ever.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Sum of those before tokens().
  [[nodiscard]] Span token_gaps() const { return Span(static_cast<std::int64_t>(token_gaps_ >> kTimeFractionBits)); }
  /// The first `steps` of `run` are done. Does not touch KvBlocks.
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
  /// What a step's gap is held to. Requests of one objective share one, so that a step costs as much as there are
  /// different objectives, however many requests it serves.
  struct Limit {
    Int128 itl;                   ///< fixed point
    std::int64_t good_steps = 0;  ///< of the steps ever run, with a gap within it
    std::int64_t settled = 0;     ///< its requests that have had a token here
  };
  [[nodiscard]] std::size_t limit_of(const Job& job);
  /// Of the settled requests.
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
  std::vector<Limit> limits_;        ///< of all that ever joined
  Int128 last_token_ = 0;            ///< when the set last got a token
  std::vector<std::int32_t> phase_;  ///< requests by the step (mod block size) that needs a new block
  std::size_t phase_now_ = 0;        ///< the next step's
  std::vector<Finish> finishes_;     ///< a heap, next first
  std::vector<SlotIndex> fresh_;     ///< joined since the last applied step
  std::vector<LongGap> long_gaps_;  ///< steps ascending, gaps descending: the longest since any step is found by search
  SlotIndex oldest_ = kNoSlot;
  SlotIndex newest_ = kNoSlot;
};

}  // namespace wattle::engine
