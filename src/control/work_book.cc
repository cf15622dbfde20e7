#include "control/work_book.h"

#include <algorithm>

namespace wattle::control {

void WorkBook::Book::add(const Entry& entry) {
  entries.push_back(entry);
  ++sum.requests;
  sum.context_tokens += entry.prompt_tokens;
  if (!entry.prompt) return;
  ++sum.prompts;
  sum.prompt_tokens += entry.prompt_tokens;
  sum.oldest = std::min(sum.oldest, entry.arrival);
  if (sum.computing == 0) compute(entries.back(), entry.dispatched);
}

void WorkBook::Book::compute(Entry& entry, Instant since) {
  entry.computing = true;
  sum.computing_since = since;
  ++sum.computing;
  sum.computing_tokens += entry.prompt_tokens;
}

void WorkBook::Book::computes_no_more(Entry& entry) {
  entry.computing = false;
  --sum.computing;
  sum.computing_tokens -= entry.prompt_tokens;
  if (sum.computing == 0) sum.computing_since = {};
}

/// An earlier request had to wait for others, and a later one has its first token: the earlier ones have theirs, too.
void WorkBook::Book::overtaken_by(const Entry& later) {
  for (Entry& entry : entries) {
    if (&entry == &later) return;
    if (!entry.computing || entry.moves) continue;
    entry.unseen = true;
    computed(entry);
  }
}

/// Its prompt no longer counts as work at this instance.
void WorkBook::Book::computed(Entry& entry) {
  entry.prompt = false;
  --sum.prompts;
  sum.prompt_tokens -= entry.prompt_tokens;
  if (entry.computing) computes_no_more(entry);
  if (sum.computing == 0) {
    for (Entry& other : entries) {
      if (other.prompt) compute(other, std::max(other.dispatched, last_first));
    }
  }
  if (entry.arrival > sum.oldest) return;
  sum.oldest = Instant::never();
  for (const Entry& other : entries) {
    if (other.prompt) sum.oldest = std::min(sum.oldest, other.arrival);
  }
}

void WorkBook::Book::first_token(const Entry& entry, Instant now) {
  Delivered& delivered = sum.delivered;
  ++delivered.prompts;
  delivered.prompt_tokens += entry.prompt_tokens;
  delivered.waits = delivered.waits + (now - entry.dispatched);
  delivered.computing = delivered.computing + (now - std::max(entry.dispatched, last_first));
  last_first = now;
}

void WorkBook::Book::erase(const Entry& entry) {
  --sum.requests;
  sum.context_tokens -= entry.prompt_tokens;
  entries.erase(entries.begin() + (&entry - entries.data()));
}

WorkBook::Entry* WorkBook::Book::find(RequestId id) {
  const auto entry = std::ranges::find(entries, id, &Entry::id);
  return entry == entries.end() ? nullptr : &*entry;
}

void WorkBook::start(const Request& request, InstanceId instance, bool moves, Instant now) {
  leave(request.id);
  places_[request.id.value()].first = instance;
  add(instance, {request.id, request.arrival, now, request.prompt_tokens, true, moves});
}

void WorkBook::hand_over(const Request& request, InstanceId decode, Instant now) {
  places_[request.id.value()].second = decode;
  add(decode, {request.id, request.arrival, now, request.prompt_tokens, false, false, false, true});
}

void WorkBook::prompt_done(RequestId id, Instant now) {
  const auto found = places_.find(id.value());
  if (found == places_.end()) return;
  if (found->second.first == kNoInstance) {
    const auto second = books_.find(found->second.second.value());
    if (Entry* entry = second == books_.end() ? nullptr : second->second.find(id)) entry->unseen = false;
    return;
  }
  const InstanceId instance = found->second.first;
  Book& here = books_[instance.value()];
  Entry* const entry = here.find(id);
  if (entry == nullptr || (!entry->prompt && !entry->unseen)) return;
  here.first_token(*entry, now);
  if (!std::exchange(entry->unseen, false)) {
    if (!entry->computing) here.overtaken_by(*entry);
    here.computed(*entry);
  }
  if (entry->moves) {
    here.erase(*entry);
    found->second.first = kNoInstance;
  }
  touch(instance);
}

void WorkBook::unseen(RequestId id) {
  const auto found = places_.find(id.value());
  if (found == places_.end() || found->second.first == kNoInstance) return;
  Book& here = books_[found->second.first.value()];
  Entry* const entry = here.find(id);
  if (entry == nullptr || !entry->prompt || entry->moves) return;
  entry->unseen = true;
  here.computed(*entry);
  touch(found->second.first);
}

InstanceId WorkBook::at(RequestId id) const {
  const auto found = places_.find(id.value());
  if (found == places_.end()) return kNoInstance;
  return found->second.second == kNoInstance ? found->second.first : found->second.second;
}

void WorkBook::answered(RequestId id, std::int64_t tokens, Instant now) {
  const auto found = places_.find(id.value());
  if (found == places_.end()) return;
  const bool moved = found->second.second != kNoInstance;
  const auto there = books_.find((moved ? found->second.second : found->second.first).value());
  Entry* entry = there == books_.end() ? nullptr : there->second.find(id);
  if (entry != nullptr && (entry->prompt || entry->unseen)) {
    // The time of its first token is unknown: all of its time counts as decode time.
    Delivered& delivered = there->second.sum.delivered;
    if (!moved) delivered.prompt_tokens += entry->prompt_tokens;
    delivered.tokens += tokens;
    if (tokens > 0) delivered.gaps = delivered.gaps + (now - entry->dispatched);
  }
  leave(id);
}

void WorkBook::leave(RequestId id) {
  const auto found = places_.find(id.value());
  if (found == places_.end()) return;
  for (const InstanceId instance : {found->second.first, found->second.second}) {
    if (instance == kNoInstance) continue;
    Book& here = books_[instance.value()];
    if (Entry* const entry = here.find(id)) {
      if (entry->prompt) here.computed(*entry);
      here.erase(*entry);
    }
    touch(instance);
  }
  places_.erase(found);
}

InstanceWork WorkBook::of(InstanceId instance) const {
  const auto there = books_.find(instance.value());
  return there == books_.end() ? InstanceWork{} : there->second.sum;
}

void WorkBook::forget(InstanceId instance) {
  const auto there = books_.find(instance.value());
  if (there == books_.end()) return;
  for (const Entry& entry : there->second.entries) {
    Places& places = places_[entry.id.value()];
    if (places.first == instance) places.first = kNoInstance;
    if (places.second == instance) places.second = kNoInstance;
    if (places.first == kNoInstance && places.second == kNoInstance) places_.erase(entry.id.value());
  }
  books_.erase(there);
  std::erase(touched_, instance);
}

void WorkBook::add(InstanceId instance, const Entry& entry) {
  books_[instance.value()].add(entry);
  touch(instance);
}

void WorkBook::touch(InstanceId instance) {
  if (std::ranges::find(touched_, instance) == touched_.end()) touched_.push_back(instance);
}

}  // namespace wattle::control
