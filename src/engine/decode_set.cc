#include "engine/decode_set.h"

#include <algorithm>

namespace wattle::engine {

namespace {

/// Of a stretch's steps, how many have a gap of at most `limit`.
std::int64_t within(const TokenGaps& gaps, Int128 limit) {
  const Int128 first = gaps.first;
  const Int128 last = first + Int128{gaps.increment} * (gaps.steps - 1);
  const Int128 least = std::min(first, last);
  const Int128 most = std::max(first, last);
  if (most <= limit) return gaps.steps;
  if (least > limit) return 0;
  return static_cast<std::int64_t>((limit - least) / (gaps.increment < 0 ? -gaps.increment : gaps.increment)) + 1;
}

}  // namespace

DecodeSet::DecodeSet(std::int32_t block_size) : phase_(static_cast<std::size_t>(block_size), 0) {}

std::size_t DecodeSet::limit_of(const Job& job) {
  const Int128 itl = to_fixed(job.itl);
  const auto found = std::ranges::find(limits_, itl, &Limit::itl);
  const auto at = static_cast<std::size_t>(found - limits_.begin());
  if (found == limits_.end()) limits_.push_back({.itl = itl});
  return at;
}

std::size_t DecodeSet::phase_of(const Slot& slot) const {
  const auto size = static_cast<std::int64_t>(phase_.size());
  const std::int64_t rest = (slot.joined - slot.prefilled) % size;
  return static_cast<std::size_t>(rest < 0 ? rest + size : rest);
}

void DecodeSet::join(Slots& slots, SlotIndex index) {
  Slot& slot = slots[index];
  slot.state = SlotState::Decoding;
  slot.joined = steps_;
  slot.limit = limit_of(slot.job);
  slot.previous = newest_;
  slot.next = kNoSlot;
  (newest_ == kNoSlot ? oldest_ : slots[newest_].next) = index;
  newest_ = index;
  ++size_;
  kv_tokens_ += slot.prefilled;
  ++phase_[phase_of(slot)];
  fresh_.push_back(index);
  push_finish(slot, index);
}

void DecodeSet::push_finish(const Slot& slot, SlotIndex index) {
  finishes_.push_back({slot.joined + slot.job.output_tokens - slot.generated, index, slot.epoch});
  std::ranges::push_heap(finishes_, Finish::later);
}

void DecodeSet::leave(Slots& slots, SlotIndex index, const KvBlocks& kv) {
  Slot& slot = slots[index];
  --phase_[phase_of(slot)];
  const std::int64_t steps = steps_ - slot.joined;
  if (steps > 0) {
    Limit& limit = limits_[slot.limit];
    slot.good_gaps += limit.good_steps - slot.good_before;
    --limit.settled;
    slot.last_token = last_token_;
    // The gap before its first step in this set is its own and already counted; later gaps are common to all members.
    auto longest = long_gaps_.begin();  // which is most often behind its first
    if (longest != long_gaps_.end() && longest->step <= slot.joined + 1) {
      longest = std::ranges::upper_bound(long_gaps_, slot.joined + 1, {}, &LongGap::step);
    }
    if (longest != long_gaps_.end()) slot.longest_gap = std::max(slot.longest_gap, longest->gap);
  } else {
    std::erase(fresh_, index);
  }
  slot.generated += static_cast<std::int32_t>(steps);
  slot.prefilled += static_cast<std::int32_t>(steps);
  slot.blocks = kv.holding(slot.prefilled);
  kv_tokens_ -= slot.prefilled;
  if (--size_ == 0) long_gaps_.clear();
  ++slot.epoch;
  (slot.previous == kNoSlot ? oldest_ : slots[slot.previous].next) = slot.next;
  (slot.next == kNoSlot ? newest_ : slots[slot.next].previous) = slot.previous;
}

std::int64_t DecodeSet::accept(Slots& slots, SlotIndex index, std::int32_t tokens, const KvBlocks& kv) {
  Slot& slot = slots[index];
  const std::int64_t before = resident_tokens(slot);
  --phase_[phase_of(slot)];
  slot.generated += tokens;
  slot.prefilled += tokens;
  ++phase_[phase_of(slot)];
  kv_tokens_ += tokens;
  ++slot.epoch;  // more tokens per step: it finishes earlier
  if (std::ssize(finishes_) > 8 * std::int64_t{size_} + 64) {
    std::erase_if(finishes_, [&](const Finish& f) { return slots[f.slot].epoch != f.epoch; });
    std::ranges::make_heap(finishes_, Finish::later);
  }
  push_finish(slot, index);
  return kv.holding(before + tokens) - kv.holding(before);
}

std::int64_t DecodeSet::blocks_for(const Slots& slots, std::int32_t tokens, const KvBlocks& kv) const {
  std::int64_t needed = 0;
  for (SlotIndex i = oldest_; i != kNoSlot; i = slots[i].next) {
    const std::int64_t resident = resident_tokens(slots[i]);
    needed += kv.holding(resident + std::min(tokens, tokens_left(slots[i]))) - kv.holding(resident);
  }
  return needed;
}

std::int64_t DecodeSet::blocks_needed(std::int64_t steps) const {
  const auto size = static_cast<std::int64_t>(phase_.size());
  const std::int64_t rounds = steps < size ? 0 : steps / size;
  std::int64_t needed = rounds * size_;
  std::size_t phase = phase_now_;
  for (std::int64_t k = steps - rounds * size; k > 0; --k) {
    needed += phase_[phase];
    if (++phase == phase_.size()) phase = 0;
  }
  return needed;
}

std::int64_t DecodeSet::affordable_steps(std::int64_t limit, std::int64_t free) const {
  if (blocks_needed(limit) <= free) return limit;
  std::int64_t low = 0;
  std::int64_t high = limit;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (blocks_needed(middle) <= free ? low : high) = middle;
  }
  return low;
}

void DecodeSet::pop_finish() {
  std::ranges::pop_heap(finishes_, Finish::later);
  finishes_.pop_back();
}

std::int64_t DecodeSet::steps_to_finish(const Slots& slots) {
  while (!finishes_.empty() && slots[finishes_.front().slot].epoch != finishes_.front().epoch) pop_finish();
  return finishes_.front().step - steps_;
}

SlotIndex DecodeSet::pop_finished(const Slots& slots) {
  while (!finishes_.empty()) {
    const Finish top = finishes_.front();
    const bool stale = slots[top.slot].epoch != top.epoch;
    if (!stale && top.step > steps_) break;
    pop_finish();
    if (!stale) return top.slot;
  }
  return kNoSlot;
}

void DecodeSet::note_gap(std::int64_t step, std::int64_t gap, const Slots& slots) {
  constexpr std::size_t kMany = 1024;
  while (long_gaps_.size() > 1 && long_gaps_[long_gaps_.size() - 2].gap <= gap) long_gaps_.pop_back();
  if (!long_gaps_.empty() && long_gaps_.back().gap <= gap) {
    long_gaps_.back() = {step, gap};
    return;
  }
  if (long_gaps_.size() >= kMany && oldest_ != kNoSlot) {  // gaps before the oldest member joined are not needed
    const auto asked = std::ranges::upper_bound(long_gaps_, slots[oldest_].joined + 1, {}, &LongGap::step);
    long_gaps_.erase(long_gaps_.begin(), asked);
  }
  long_gaps_.push_back({step, gap});
}

void DecodeSet::count(TokenGaps gaps, ReplicaObserver& observer) {
  for (Limit& limit : limits_) {
    const std::int64_t good = within(gaps, limit.itl);
    limit.good_steps += good;
    gaps.within += good * limit.settled;
  }
  if (gaps.requests > 0) report_gaps(gaps, observer);
}

void DecodeSet::report_gaps(const TokenGaps& gaps, ReplicaObserver& observer) {
  const Int128 steps = gaps.steps;
  tokens_ += gaps.steps * gaps.requests;
  token_gaps_ += gaps.requests * (steps * gaps.first + gaps.increment * (steps * (steps - 1) / 2));
  observer.gaps(gaps);
}

void DecodeSet::advance(const StepRun& run, std::int64_t steps, Slots& slots, ReplicaObserver& observer) {
  const Int128 first_end = run.after(1);
  const Int128 first_gap = first_end - last_token_;
  const std::int64_t second = run.first + run.increment;
  const std::int64_t longest = steps > 1 ? std::max(second, second + run.increment * (steps - 2)) : -1;
  const std::int64_t established = size_ - std::ssize(fresh_);
  count({.first = gap_of(first_gap), .requests = established}, observer);
  if (established > 0 && longest < first_gap) note_gap(steps_ + 1, gap_of(first_gap), slots);
  for (const SlotIndex index : fresh_) {
    Slot& slot = slots[index];
    Limit& limit = limits_[slot.limit];
    const Int128 gap = first_end - slot.last_token;
    const bool good = gap <= limit.itl;
    report_gaps({.first = gap_of(gap), .requests = 1, .within = good ? 1 : 0}, observer);
    slot.good_gaps += good ? 1 : 0;
    slot.good_before = limit.good_steps;
    slot.longest_gap = std::max(slot.longest_gap, gap_of(gap));
    ++limit.settled;
  }
  fresh_.clear();
  if (steps > 1) {
    count({.first = second, .increment = run.increment, .steps = steps - 1, .requests = size_}, observer);
    note_gap(steps_ + steps, longest, slots);
  }
  steps_ += steps;
  phase_now_ += static_cast<std::size_t>(steps);
  if (phase_now_ >= phase_.size()) phase_now_ %= phase_.size();
  kv_tokens_ += steps * size_;
  last_token_ = run.after(steps);
}

}  // namespace wattle::engine
