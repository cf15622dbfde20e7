#pragma once
// Names of a request's KV blocks for the prefix cache. Internal to engine/.
#include <cstdint>

#include "engine/job.h"
#include "model/prompt_blocks.h"

namespace wattle::engine {

/// Keys of a request's KV blocks. Blocks of output tokens are the request's own: only it finds them again, after a
/// preemption.
class BlockKeys {
 public:
  /// Precondition: job.content is not null and outlives this.
  BlockKeys(const Job& job, std::int32_t block_size)
      : blocks_(*job.content),
        own_(hash_of(0, static_cast<std::uint64_t>(job.id.value()))),
        prompt_tokens_(job.prompt_tokens),
        block_size_(block_size) {}

  [[nodiscard]] std::uint64_t operator[](std::int64_t block) const {
    return block_key(&blocks_, block, block_size_, prompt_tokens_, own_);
  }

 private:
  const PromptBlocks& blocks_;
  std::uint64_t own_;
  std::int64_t prompt_tokens_;
  std::int64_t block_size_;
};

}  // namespace wattle::engine
