#pragma once
// Names of a request's KV blocks for the prefix cache. Internal to engine/.
#include <cstdint>

#include "engine/job.h"
#include "model/prompt_blocks.h"

namespace wattle::engine {

/// The i-th full block of a request: equal names, equal tokens from the beginning to that block's end. Hashes of larger
/// or smaller blocks than the engine's serve as well: a block is known by the hash that covers its end. What no hash
/// covers, and every output token, is the request's own: it finds them again after a preemption, nobody else does.
class BlockKeys {
 public:
  /// Precondition: job.content is not null and outlives this.
  BlockKeys(const Job& job, std::int32_t block_size)
      : blocks_(*job.content),
        own_(hash_of(0, static_cast<std::uint64_t>(job.id.value()))),
        prompt_tokens_(job.prompt_tokens),
        block_size_(block_size) {}

  [[nodiscard]] std::uint64_t operator[](std::int64_t block) const {
    const std::int64_t end = (block + 1) * block_size_;
    const auto covering = static_cast<std::size_t>((end - 1) / blocks_.block_tokens);
    const bool known = end <= prompt_tokens_ && covering < blocks_.chain.size();
    return hash_of(known ? blocks_.chain[covering] : own_, static_cast<std::uint64_t>(block));
  }

 private:
  const PromptBlocks& blocks_;
  std::uint64_t own_;
  std::int64_t prompt_tokens_;
  std::int64_t block_size_;
};

}  // namespace wattle::engine
