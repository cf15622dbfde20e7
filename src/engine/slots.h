#pragma once
// The requests in an instance, by slot. Internal to engine/.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/wide.h"
#include "engine/job.h"
#include "engine/prefix_cache.h"

namespace wattle::engine {

using SlotIndex = std::int32_t;
inline constexpr SlotIndex kNoSlot = -1;

enum class SlotState : std::uint8_t { Free, Waiting, Prefilling, Decoding, Handing };

struct Slot {
  Job job;
  SlotState state = SlotState::Free;
  bool cancelled = false;          ///< leaves when the step in progress ends
  std::uint32_t epoch = 0;         ///< invalidates finish-heap entries
  std::int32_t target_tokens = 0;  ///< prompt tokens to compute before decoding (prompt + recomputed output)
  std::int32_t prefilled = 0;
  std::int32_t generated = 0;          ///< output tokens produced, as of joining decode
  std::int64_t blocks = 0;             ///< as of joining decode
  std::vector<CachedBlock> held = {};  ///< the first of these, as far as they are cached
  std::int32_t cached_tokens = 0;      ///< of the prompt, when its computation first began
  std::int64_t promised = 0;           ///< blocks to which it may grow, once admitted (EngineOptions::reserve_output)
  std::int64_t first_step = 0;         ///< Replica::iterations() of the first step it can be part of (async_scheduling)
  std::int64_t joined = 0;             ///< DecodeSet::steps() when it joined
  std::size_t limit = 0;               ///< index of its limit in DecodeSet
  std::int64_t good_before = 0;        ///< number of steps with a good gap when its own gaps began to count
  std::int64_t good_gaps = 0;          ///< within Job::itl
  std::int64_t longest_gap = 0;        ///< between two of its tokens, fixed point; as of joining decode
  Int128 last_token = 0;               ///< fixed-point instant
  Instant prefill_start = Instant::never();
  std::int32_t preemptions = 0;
  SlotIndex previous = kNoSlot;  ///< decoding requests, oldest joined first
  SlotIndex next = kNoSlot;
};

class Slots {
 public:
  [[nodiscard]] Slot& operator[](SlotIndex index) { return slots_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] const Slot& operator[](SlotIndex index) const { return slots_[static_cast<std::size_t>(index)]; }

  [[nodiscard]] SlotIndex add();
  void remove(SlotIndex index);
  [[nodiscard]] SlotIndex find(Tag tag) const;
  /// One past the highest index ever used; slots below may be free.
  [[nodiscard]] SlotIndex end() const { return static_cast<SlotIndex>(slots_.size()); }
  [[nodiscard]] std::int64_t held() const { return held_; }

 private:
  std::vector<Slot> slots_;
  std::vector<SlotIndex> free_;
  std::int64_t held_ = 0;
};

}  // namespace wattle::engine
