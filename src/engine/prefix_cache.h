#pragma once
// Which KV blocks keep something that another request may use. Internal to engine/, behind KvBlocks.
//
// As vLLM V1 (KVCacheManager, BlockPool): blocks are known by the chained hash of what they and those before hold;
// requests that hold one count as references; a block nobody holds keeps what it has until it is taken, least recently
// freed first, whether something is cached in it or not. Two blocks may hold the same: who asks gets the older one.
#include <cstdint>
#include <vector>

namespace wattle::engine {

using CachedBlock = std::int32_t;
inline constexpr CachedBlock kNotCached = -1;

class PrefixCache {
 public:
  /// At most so many blocks can be cached. Nothing is allocated before the first is.
  explicit PrefixCache(std::int64_t blocks) : blocks_(blocks) {}

  /// Whether anything has been cached, so that the order of free blocks matters.
  [[nodiscard]] bool used() const { return !buckets_.empty(); }
  [[nodiscard]] CachedBlock find(std::uint64_t key) const;
  [[nodiscard]] bool held(CachedBlock block) const { return at(block).holders > 0; }

  /// A block in use now holds this; its request is the first holder. `free`: how many blocks are free.
  CachedBlock enter(std::uint64_t key, std::int64_t free);
  /// One holder more. True: it was free.
  bool hold(CachedBlock block);
  /// One holder less. True: it is free now, the last to be taken.
  bool release(CachedBlock block);

  // Where used().
  /// So many free blocks are taken: what was in them is lost.
  void take(std::int64_t blocks);
  /// So many blocks in which nothing is cached become free.
  void give(std::int64_t blocks);

  /// INV-3: aborts unless as many blocks are free, and each is known where it should be.
  void check(std::int64_t free) const;
  [[nodiscard]] std::int64_t holders(CachedBlock block) const { return at(block).holders; }

 private:
  /// A cached block, or a run of free ones in which nothing is.
  struct Entry {
    std::uint64_t key = 0;
    std::int64_t plain = 0;  ///< length of such a run; 0: a cached block
    std::int32_t holders = 0;
    std::int32_t previous = kNotCached;  ///< in the order of being taken, where free
    std::int32_t next = kNotCached;
    std::int32_t same = kNotCached;  ///< the next younger of this key
  };
  [[nodiscard]] Entry& at(std::int32_t entry) { return entries_[static_cast<std::size_t>(entry)]; }
  [[nodiscard]] const Entry& at(std::int32_t entry) const { return entries_[static_cast<std::size_t>(entry)]; }
  [[nodiscard]] std::int32_t add(std::uint64_t key, std::int64_t plain);
  void append(std::int32_t entry);
  void unlink(std::int32_t entry);
  void forget(std::int32_t entry);
  /// Where the key is, or where it would be.
  [[nodiscard]] std::size_t bucket_of(std::uint64_t key) const;
  void empty_bucket(std::size_t bucket);

  std::int64_t blocks_;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> unused_;   ///< of entries_
  std::vector<std::int32_t> buckets_;  ///< open addressing, a power of two, never more than half full: oldest of a key
  std::int32_t first_ = kNotCached;    ///< free: the next to be taken
  std::int32_t last_ = kNotCached;
};

}  // namespace wattle::engine
