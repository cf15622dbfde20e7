#include "engine/slots.h"

#include <utility>

namespace wattle::engine {

SlotIndex Slots::add() {
  ++held_;
  if (free_.empty()) {
    slots_.emplace_back();
    return static_cast<SlotIndex>(slots_.size() - 1);
  }
  const SlotIndex index = free_.back();
  free_.pop_back();
  Slot& slot = (*this)[index];
  const std::uint32_t epoch = slot.epoch;
  std::vector<CachedBlock> held = std::move(slot.held);  // empty, with room
  slot = Slot{};
  slot.held = std::move(held);
  slot.epoch = epoch + 1;
  return index;
}

void Slots::remove(SlotIndex index) {
  Slot& slot = (*this)[index];
  slot.state = SlotState::Free;
  slot.job.content = nullptr;
  ++slot.epoch;
  free_.push_back(index);
  --held_;
}

SlotIndex Slots::find(Tag tag) const {
  for (SlotIndex i = 0; i < end(); ++i) {
    if ((*this)[i].state != SlotState::Free && (*this)[i].job.tag == tag) return i;
  }
  return kNoSlot;
}

}  // namespace wattle::engine
