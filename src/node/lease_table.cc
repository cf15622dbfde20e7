#include "node/lease_table.h"

#include <algorithm>

namespace wattle::node {

void LeaseTable::command(Slot& slot, MegaHertz clock, Instant now) {
  if (slot.commanded == clock) return;
  slot.commanded = clock;
  port_.command(slot.instance, clock, now);
}

void LeaseTable::add(InstanceId instance, MegaHertz fallback, Instant now) {
  slots_.push_back({instance, fallback, MegaHertz{0}});
  command(slots_.back(), fallback, now);
}

bool LeaseTable::grant(InstanceId instance, MegaHertz clock, Span lease, Instant now) {
  const auto slot = std::ranges::find(slots_, instance, &Slot::instance);
  if (slot == slots_.end()) return false;
  ++counts_.granted;
  slot->until = now + lease;
  command(*slot, clock, now);
  return true;
}

void LeaseTable::revoke(InstanceId instance, Instant now) {
  const auto slot = std::ranges::find(slots_, instance, &Slot::instance);
  if (slot == slots_.end()) return;
  slot->until = Instant::never();
  command(*slot, slot->fallback, now);
}

void LeaseTable::tick(Instant now) {
  for (Slot& slot : slots_) {
    if (now < slot.until) continue;
    ++counts_.expired;
    slot.until = Instant::never();
    command(slot, slot.fallback, now);
  }
}

Instant LeaseTable::next_tick() const {
  Instant next = Instant::never();
  for (const Slot& slot : slots_) next = std::min(next, slot.until);
  return next;
}

MegaHertz LeaseTable::commanded(InstanceId instance) const {
  const auto slot = std::ranges::find(slots_, instance, &Slot::instance);
  return slot == slots_.end() ? MegaHertz{0} : slot->commanded;
}

}  // namespace wattle::node
