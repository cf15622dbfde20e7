#pragma once
// Which KV blocks contain something that another request may use. Internal to engine/, behind KvBlocks.
//
// Like vLLM V1 (KVCacheManager, BlockPool): blocks are identified by the chained hash of their content and that of
// those before; requests that hold a block count as references; an unreferenced block keeps its content until it is
// reused, least recently freed first, cached or not. Two blocks may have the same content: a lookup returns the older
// one.
#include <cstdint>
#include <vector>

namespace wattle::engine {

using CachedBlock = std::int32_t;
inline constexpr CachedBlock kNotCached = -1;

class PrefixCache {
 public:
  /// At most `blocks` blocks can be cached. Allocates nothing before the first one is.
  explicit PrefixCache(std::int64_t blocks) : blocks_(blocks) {}

  /// Whether anything has been cached, so that the order of free blocks matters.
  [[nodiscard]] bool used() const { return !buckets_.empty(); }
  [[nodiscard]] CachedBlock find(std::uint64_t key) const;
  [[nodiscard]] bool held(CachedBlock block) const { return at(block).holders > 0; }

  /// A block in use now has this key; its request is the first holder. `free`: number of free blocks.
  CachedBlock enter(std::uint64_t key, std::int64_t free);
  /// Adds a holder. True: the block was free.
  bool hold(CachedBlock block);
  /// Removes a holder. True: the block is free now, and the last to be reused.
  bool release(CachedBlock block);

  // The next two require used().
  /// This many free blocks are taken: their content is lost.
  void take(std::int64_t blocks);
  /// This many blocks without cached content become free.
  void give(std::int64_t blocks);

  /// INV-3: aborts unless `free` blocks are free and each is indexed correctly.
  void check(std::int64_t free) const;
  [[nodiscard]] std::int64_t holders(CachedBlock block) const { return at(block).holders; }

 private:
  /// A cached block, or a run of free ones without cached content.
  struct Entry {
    std::uint64_t key = 0;
    std::int64_t plain = 0;  ///< length of such a run; 0: a cached block
    std::int32_t holders = 0;
    std::int32_t previous = kNotCached;  ///< in the order of reuse, if free
    std::int32_t next = kNotCached;
    std::int32_t same = kNotCached;  ///< the next younger block with this key
  };
  [[nodiscard]] Entry& at(std::int32_t entry) { return entries_[static_cast<std::size_t>(entry)]; }
  [[nodiscard]] const Entry& at(std::int32_t entry) const { return entries_[static_cast<std::size_t>(entry)]; }
  [[nodiscard]] std::int32_t add(std::uint64_t key, std::int64_t plain);
  void append(std::int32_t entry);
  void unlink(std::int32_t entry);
  void forget(std::int32_t entry);
  /// The bucket of the key, or where it would be inserted.
  [[nodiscard]] std::size_t bucket_of(std::uint64_t key) const;
  void empty_bucket(std::size_t bucket);

  std::int64_t blocks_;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> unused_;   ///< of entries_
  std::vector<std::int32_t> buckets_;  ///< open addressing, a power of two, never more than half full: oldest of a key
  std::int32_t first_ = kNotCached;    ///< the free block to be reused next
  std::int32_t last_ = kNotCached;
};

}  // namespace wattle::engine
