#pragma once
// The requests of an instance whose prompt is not, or not completely, computed. Internal to engine/.
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/slots.h"

namespace wattle::engine {

class Prompts {
 public:
  // First come, first served.
  [[nodiscard]] bool none_waiting() const { return waiting_.empty(); }
  [[nodiscard]] std::int32_t waiting() const { return static_cast<std::int32_t>(waiting_.size()); }
  [[nodiscard]] std::int64_t waiting_tokens() const { return waiting_tokens_; }
  [[nodiscard]] SlotIndex front() const { return waiting_.front(); }
  void wait(SlotIndex index, const Slot& slot) {
    waiting_.push_back(index);
    waiting_tokens_ += slot.target_tokens;
  }
  void wait_first(SlotIndex index, const Slot& slot) {
    waiting_.push_front(index);
    waiting_tokens_ += slot.target_tokens;
  }
  void leave_waiting(SlotIndex index, const Slot& slot) {
    if (waiting_.front() == index) {
      waiting_.pop_front();
    } else {
      std::erase(waiting_, index);
    }
    waiting_tokens_ -= slot.target_tokens;
  }

  /// Requests being computed, in order of admission.
  [[nodiscard]] std::span<const SlotIndex> computing() const { return computing_; }
  void compute(SlotIndex index) { computing_.push_back(index); }
  void leave_computing(SlotIndex index) { std::erase(computing_, index); }

  // Tokens of the step in progress.
  [[nodiscard]] std::span<const PrefillShare> shares() const { return shares_; }
  [[nodiscard]] std::span<const SlotIndex> share_slots() const { return share_slots_; }
  void add_share(SlotIndex index, Tag tag, std::int64_t tokens) {
    shares_.push_back({tag, tokens});
    share_slots_.push_back(index);
  }
  void clear_shares() {
    shares_.clear();
    share_slots_.clear();
  }

 private:
  std::deque<SlotIndex> waiting_;
  std::int64_t waiting_tokens_ = 0;
  std::vector<SlotIndex> computing_;
  std::vector<PrefillShare> shares_;
  std::vector<SlotIndex> share_slots_;  ///< of shares_
};

}  // namespace wattle::engine
