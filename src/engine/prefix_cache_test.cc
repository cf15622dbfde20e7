#include "engine/prefix_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "engine/kv_blocks.h"

namespace wattle::engine {
namespace {

constexpr std::int32_t kBlock = 4;  // tokens

/// vLLM V1's BlockPool and KVCacheManager, block by block: a queue of free blocks, and a table from hashes to blocks.
class Reference {
 public:
  struct Block {
    std::uint64_t hash = 0;  ///< 0: none
    int references = 0;
  };
  explicit Reference(int blocks) : blocks_(static_cast<std::size_t>(blocks)) {
    for (int i = 0; i < blocks; ++i) queue_.push_back(i);
  }
  [[nodiscard]] std::vector<int> computed(const BlockKeys& keys, std::int64_t most) const {
    std::vector<int> found;
    for (std::int64_t i = 0; i < most; ++i) {
      const auto at = table_.find(keys[i]);
      if (at == table_.end()) break;
      found.push_back(at->second.front());
    }
    return found;
  }
  void touch(const std::vector<int>& blocks) {
    for (const int b : blocks) {
      if (block(b).references++ == 0) std::erase(queue_, b);
    }
  }
  void allocate(std::int64_t count, std::vector<int>& to) {
    for (; count > 0; --count) {
      const int b = queue_.front();
      queue_.pop_front();
      if (block(b).hash != 0) {
        auto& same = table_.at(block(b).hash);
        std::erase(same, b);
        if (same.empty()) table_.erase(block(b).hash);
      }
      block(b) = {0, 1};
      to.push_back(b);
    }
  }
  void cache(const BlockKeys& keys, std::int64_t full, const std::vector<int>& blocks) {
    for (std::int64_t i = 0; i < full; ++i) {
      const int b = blocks[static_cast<std::size_t>(i)];
      if (block(b).hash != 0) continue;
      block(b).hash = keys[i];
      table_[keys[i]].push_back(b);
    }
  }
  void free(std::vector<int> blocks) {
    std::ranges::reverse(blocks);
    for (const int b : blocks) {
      if (--block(b).references == 0) queue_.push_back(b);
    }
  }
  [[nodiscard]] std::int64_t free() const { return std::ssize(queue_); }

 private:
  [[nodiscard]] Block& block(int b) { return blocks_[static_cast<std::size_t>(b)]; }
  std::vector<Block> blocks_;
  std::deque<int> queue_;
  std::map<std::uint64_t, std::vector<int>> table_;
};

struct Running {
  Job job;
  std::int64_t tokens = 0;  ///< in the cache, or about to be
  std::vector<CachedBlock> held;
  std::int64_t blocks = 0;
  std::vector<int> reference;
};

/// A prompt that shares prefixes with others: a walk in a tree of few branches.
Job drawn_prompt(std::int64_t id) {
  Job job;
  job.id = RequestId(id);
  job.prompt_tokens = *rc::gen::inRange(1, 60);
  std::vector<std::uint64_t> ids;
  for (std::int32_t token = 0; token < job.prompt_tokens; token += 8) ids.push_back(*rc::gen::inRange<unsigned>(0, 3));
  job.content = chained(8, ids);
  return job;
}

RC_GTEST_PROP(PrefixCache, serves_and_evicts_what_vllms_does, ()) {
  const int total = *rc::gen::inRange(20, 60);
  KvBlocks kv(total, kBlock, 0.0);
  Reference reference(total);
  std::vector<Running> running;
  const int steps = *rc::gen::inRange(1, 120);
  for (int step = 0; step < steps; ++step) {
    const int what = *rc::gen::inRange(0, 4);
    if (what < 2) {  // one is admitted, its prompt computed at once, or in two parts
      Running r{drawn_prompt(step), 0, {}, 0, {}};
      const BlockKeys keys(r.job, kBlock);
      const std::int64_t most = kv.filled(r.job.prompt_tokens - 1);
      const auto cached = kv.cached(keys, most);
      r.reference = reference.computed(keys, most);
      RC_ASSERT(cached.blocks == std::ssize(r.reference));
      r.blocks = kv.holding(r.job.prompt_tokens);
      if (r.blocks - cached.in_use > kv.free()) continue;
      kv.hold_cached(keys, cached.blocks, r.held);
      kv.take(r.blocks - cached.blocks);
      reference.touch(r.reference);
      reference.allocate(r.blocks - cached.blocks, r.reference);
      r.tokens = *rc::gen::inRange<std::int64_t>(cached.blocks * kBlock, r.job.prompt_tokens + 1);
      for (const std::int64_t now : {r.tokens, std::int64_t{r.job.prompt_tokens}}) {
        kv.enter(keys, kv.filled(now), r.held);
        reference.cache(keys, kv.filled(now), r.reference);
      }
      r.tokens = r.job.prompt_tokens;
      running.push_back(std::move(r));
    } else if (!running.empty()) {  // one decodes for a while, or leaves
      const auto at = running.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(running));
      const BlockKeys keys(at->job, kBlock);
      if (what == 2) {
        const std::int64_t tokens = at->tokens + *rc::gen::inRange(1, 12);
        const std::int64_t more = kv.holding(tokens) - at->blocks;
        if (more > kv.free()) continue;
        kv.take(more);
        reference.allocate(more, at->reference);
        at->tokens = tokens;
        at->blocks += more;
      } else {
        kv.enter(keys, kv.filled(at->tokens), at->held);
        reference.cache(keys, kv.filled(at->tokens), at->reference);
        kv.give(at->blocks - std::ssize(at->held));
        kv.release(at->held);
        reference.free(at->reference);
        running.erase(at);
      }
    }
    RC_ASSERT(kv.free() == reference.free());
    kv.cache().check(kv.free());
  }
}

TEST(PrefixCache, BlocksSetAsideLoseWhatTheyCached) {
  KvBlocks kv(10, kBlock, 0.0);
  Job job;
  job.prompt_tokens = 20;
  const std::uint64_t ids[] = {1, 2, 3, 4, 5};
  job.content = chained(kBlock, ids);
  const BlockKeys keys(job, kBlock);
  std::vector<CachedBlock> held;
  kv.take(5);
  kv.enter(keys, 5, held);
  kv.release(held);
  EXPECT_EQ(kv.cached(keys, 5).blocks, 5);
  kv.set_aside(7);  // the five never used, then the last two of the prompt
  EXPECT_EQ(kv.free(), 3);
  EXPECT_EQ(kv.cached(keys, 5).blocks, 3);
  kv.set_aside(0);
  EXPECT_EQ(kv.free(), 10);
  EXPECT_EQ(kv.cached(keys, 5).blocks, 3);
  kv.forget_cached();
  EXPECT_EQ(kv.cached(keys, 5).blocks, 0);
}

TEST(BlockKeys, BlocksOfAnySizeAreNamedByWhatTheyHold) {
  Job a;
  a.id = RequestId(1);
  a.prompt_tokens = 1300;
  const std::uint64_t ids_a[] = {7, 8, 9};
  a.content = chained(512, ids_a);
  Job b = a;
  b.id = RequestId(2);
  b.prompt_tokens = 1400;
  const std::uint64_t ids_b[] = {7, 8, 10};
  b.content = chained(512, ids_b);
  for (const std::int32_t size : {16, 24, 128, 512, 1024}) {
    const BlockKeys of_a(a, size);
    const BlockKeys of_b(b, size);
    for (std::int64_t block = 0; block < 1300 / size; ++block) {
      EXPECT_EQ(of_a[block] == of_b[block], (block + 1) * size <= 1024) << size << ", " << block;
      EXPECT_NE(of_a[block], of_a[block + 1]);
    }
    EXPECT_NE(of_a[1300 / size], of_b[1300 / size]) << "beyond the prompt it is its own";
  }
  // Ids only match together with those before them: 8 after 6 is not 8 after 7.
  const std::uint64_t ids_c[] = {6, 8, 9};
  b.content = chained(512, ids_c);
  EXPECT_NE(BlockKeys(a, 16)[40], BlockKeys(b, 16)[40]);
}

}  // namespace
}  // namespace wattle::engine
