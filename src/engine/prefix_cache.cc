#include "engine/prefix_cache.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace wattle::engine {

std::size_t PrefixCache::bucket_of(std::uint64_t key) const {
  const std::size_t mask = buckets_.size() - 1;
  std::size_t bucket = key & mask;
  while (buckets_[bucket] != kNotCached && at(buckets_[bucket]).key != key) bucket = (bucket + 1) & mask;
  return bucket;
}

/// Those behind it that it kept from their place move up (Knuth, volume 3, 6.4, algorithm R).
void PrefixCache::empty_bucket(std::size_t bucket) {
  const std::size_t mask = buckets_.size() - 1;
  for (std::size_t next = (bucket + 1) & mask; buckets_[next] != kNotCached; next = (next + 1) & mask) {
    const std::size_t wanted = at(buckets_[next]).key & mask;
    if (((next - wanted) & mask) < ((next - bucket) & mask)) continue;
    buckets_[bucket] = buckets_[next];
    bucket = next;
  }
  buckets_[bucket] = kNotCached;
}

CachedBlock PrefixCache::find(std::uint64_t key) const { return used() ? buckets_[bucket_of(key)] : kNotCached; }

std::int32_t PrefixCache::add(std::uint64_t key, std::int64_t plain) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<std::int32_t>(entries_.size()));
    entries_.emplace_back();
  }
  const std::int32_t entry = unused_.back();
  unused_.pop_back();
  at(entry) = Entry{};
  at(entry).key = key;
  at(entry).plain = plain;
  return entry;
}

void PrefixCache::append(std::int32_t entry) {
  at(entry).previous = last_;
  at(entry).next = kNotCached;
  (last_ == kNotCached ? first_ : at(last_).next) = entry;
  last_ = entry;
}

void PrefixCache::unlink(std::int32_t entry) {
  const Entry& gone = at(entry);
  (gone.previous == kNotCached ? first_ : at(gone.previous).next) = gone.next;
  (gone.next == kNotCached ? last_ : at(gone.next).previous) = gone.previous;
}

void PrefixCache::forget(std::int32_t entry) {
  const std::size_t bucket = bucket_of(at(entry).key);
  std::int32_t older = buckets_[bucket];
  if (older != entry) {
    while (at(older).same != entry) older = at(older).same;
    at(older).same = at(entry).same;
  } else if (at(entry).same != kNotCached) {
    buckets_[bucket] = at(entry).same;
  } else {
    empty_bucket(bucket);
  }
  unused_.push_back(entry);
}

CachedBlock PrefixCache::enter(std::uint64_t key, std::int64_t free) {
  if (!used()) {
    buckets_.assign(std::bit_ceil(static_cast<std::size_t>(std::max<std::int64_t>(blocks_, 1)) * 2), kNotCached);
    if (free > 0) append(add(0, free));
  }
  const std::int32_t entry = add(key, 0);
  at(entry).holders = 1;
  const std::size_t bucket = bucket_of(key);
  if (buckets_[bucket] == kNotCached) {
    buckets_[bucket] = entry;
  } else {
    std::int32_t youngest = buckets_[bucket];
    while (at(youngest).same != kNotCached) youngest = at(youngest).same;
    at(youngest).same = entry;
  }
  return entry;
}

bool PrefixCache::hold(CachedBlock block) {
  const bool was_free = at(block).holders++ == 0;
  if (was_free) unlink(block);
  return was_free;
}

bool PrefixCache::release(CachedBlock block) {
  const bool is_free = --at(block).holders == 0;
  if (is_free) append(block);
  return is_free;
}

void PrefixCache::take(std::int64_t blocks) {
  while (blocks > 0) {
    Entry& oldest = at(first_);
    const std::int64_t taken = std::min(blocks, std::max<std::int64_t>(oldest.plain, 1));
    blocks -= taken;
    if (oldest.plain > taken) {
      oldest.plain -= taken;
      return;
    }
    const std::int32_t entry = first_;
    unlink(entry);
    if (oldest.plain > 0) {
      unused_.push_back(entry);
    } else {
      forget(entry);
    }
  }
}

void PrefixCache::give(std::int64_t blocks) {
  if (blocks == 0) return;
  if (last_ != kNotCached && at(last_).plain > 0) {
    at(last_).plain += blocks;
  } else {
    append(add(0, blocks));
  }
}

void PrefixCache::check(std::int64_t free) const {
  std::int64_t found = 0;
  for (std::int32_t entry = first_; entry != kNotCached; entry = at(entry).next) {
    found += std::max<std::int64_t>(at(entry).plain, 1);
    if (at(entry).plain > 0) continue;
    std::int32_t known = find(at(entry).key);
    while (known != kNotCached && known != entry) known = at(known).same;
    WATTLE_CHECK(known == entry, "INV-3: a cached block is found by its key");
    WATTLE_CHECK(at(entry).holders == 0, "INV-3: a free block has no holders");
  }
  WATTLE_CHECK(!used() || found == free, "INV-3: the blocks in line to be taken are those that are free");
}

}  // namespace wattle::engine
