// How requests leave a Replica before their last token: released, cancelled, lost with the instance.
#include <algorithm>

#include "base/check.h"
#include "engine/replica.h"

namespace wattle::engine {

void Replica::drop(SlotIndex index, Instant at) {
  const Slot& slot = slots_[index];
  switch (slot.state) {
    case SlotState::Free:
      return;
    case SlotState::Waiting:
      prompts_.leave_waiting(index, slot);
      break;
    case SlotState::Prefilling:
      prompts_.leave_computing(index);
      kv_tokens_prefill_ -= slot.prefilled;
      break;
    case SlotState::Handing:
      kv_tokens_prefill_ -= slot.prefilled;
      break;
    case SlotState::Decoding:
      leave_decode(index, at);
      break;
  }
  free_slot(index);
}

void Replica::release(Tag tag, Instant now) {
  const SlotIndex index = slots_.find(tag);
  if (index == kNoSlot) return;
  WATTLE_CHECK(slots_[index].state == SlotState::Handing, "released before its prefill ended");
  interrupt_run(now);
  drop(index, now);
  update_admission();
}

bool Replica::withdraw(Tag tag, Instant now) {
  const SlotIndex index = slots_.find(tag);
  if (index == kNoSlot) return false;
  const Slot& slot = slots_[index];
  if (slot.state != SlotState::Waiting || slot.cancelled || slot.generated > 0) return false;
  interrupt_run(now);
  drop(index, now);
  update_admission();
  return true;
}

bool Replica::cancel(Tag tag, Instant now) {
  const SlotIndex index = slots_.find(tag);
  if (index == kNoSlot) return false;
  interrupt_run(now);
  Slot& slot = slots_[index];
  if (slot.cancelled) return false;
  const bool in_step =
      busy_ && (slot.state == SlotState::Decoding || std::ranges::count(prompts_.share_slots(), index) > 0);
  if (in_step) {
    slot.cancelled = true;
    cancelled_.push_back(index);
  } else {
    drop(index, now);
    emit(EventKind::Cancelled, slot, now);
    update_admission();
  }
  return true;
}

std::vector<Tag> Replica::kill(Instant now) {
  catch_up(now);
  settle_shares(now);
  std::vector<Tag> tags;
  for (SlotIndex i = 0; i < slots_.end(); ++i) {
    if (slots_[i].state == SlotState::Free) continue;
    tags.push_back(slots_[i].job.tag);
    drop(i, now);
  }
  kv_.forget_cached();
  busy_ = false;
  ended_step_.sequence = -1;
  ended_unsaid_ = Instant::never();
  dead_ = true;
  can_admit_ = false;
  cancelled_.clear();
  report_.shape = StepShape{};
  set_power(Milliwatts(0), clock_, now);
  return tags;
}

void Replica::squeeze(double share, Instant now) {
  interrupt_run(now);
  kv_.set_aside(static_cast<std::int64_t>(share * static_cast<double>(kv_.total())));
  if (!dead_) update_admission();
}

void Replica::revive(Instant now) {
  WATTLE_CHECK(dead_, "only a dead instance comes back");
  dead_ = false;
  go_idle(now);
}

}  // namespace wattle::engine
