#include "workload/shared_prefixes.h"

#include <algorithm>
#include <utility>

namespace wattle::workload {
namespace {
constexpr std::int32_t kSharedBlockTokens = 16;
}

PromptContent SharedPrefixes::draw(std::int32_t prompt_tokens) {
  const auto wanted = static_cast<std::size_t>(prompt_tokens / kSharedBlockTokens);
  PromptBlocks blocks{kSharedBlockTokens, {}};
  const bool goes_on = random_.uniform() < options_.session_share && !sessions_.empty();
  const bool begins_alike = random_.uniform() < options_.share;
  const auto place = goes_on ? static_cast<std::size_t>(random_.below(sessions_.size())) : next_;
  if (goes_on) {
    blocks.chain = sessions_[place]->chain;
    blocks.chain.resize(std::min(wanted, blocks.chain.size()));
  } else if (begins_alike) {
    std::uint64_t hash = 1 + random_.below(static_cast<std::uint64_t>(options_.prefixes));
    const auto shared = std::min(wanted, static_cast<std::size_t>(options_.tokens / kSharedBlockTokens));
    for (std::size_t i = 0; i < shared; ++i) blocks.chain.push_back(hash = hash_of(hash, 0));
  }
  std::uint64_t own = hash_of(blocks.chain.empty() ? 0 : blocks.chain.back(), random_.next_u64());
  while (blocks.chain.size() < wanted) blocks.chain.push_back(own = hash_of(own, 1));
  auto content = std::make_shared<const PromptBlocks>(std::move(blocks));
  keep(content, place, goes_on);
  return content;
}

/// Stores the conversation's present state; a new conversation replaces the oldest.
void SharedPrefixes::keep(PromptContent content, std::size_t place, bool goes_on) {
  if (options_.session_share == 0.0) return;
  if (goes_on) {
    sessions_[place] = std::move(content);
  } else if (sessions_.size() < static_cast<std::size_t>(options_.sessions)) {
    sessions_.push_back(std::move(content));
  } else {
    sessions_[next_] = std::move(content);
    next_ = (next_ + 1) % sessions_.size();
  }
}

}  // namespace wattle::workload
