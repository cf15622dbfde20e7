#pragma once
// Prompts that begin alike, for requests of which nothing is known but their lengths: shared system prompts and
// conversations.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "workload/options.h"

namespace wattle::workload {

class RequestSource;  // source.h, which uses this

/// Says what prompts consist of, in blocks of 16 tokens. By chance one goes on with one of the last `sessions`
/// conversations (PrefixOptions::session_share): it begins with that one's last prompt, as far as it is as long. Or it
/// begins with a system prompt (PrefixOptions::share). The rest is its own.
class SharedPrefixes {
 public:
  SharedPrefixes(const PrefixOptions& options, std::uint64_t seed)
      : options_(options), random_(seed, "workload.prefixes") {}
  [[nodiscard]] PromptContent draw(std::int32_t prompt_tokens);

 private:
  void keep(PromptContent content, std::size_t place, bool goes_on);

  PrefixOptions options_;
  RandomStream random_;
  std::vector<PromptContent> sessions_;
  std::size_t next_ = 0;  ///< where there are as many as may be: the one begun longest ago
};

/// The requests of `from`; those that come without content get one. Arrivals and lengths stay.
[[nodiscard]] std::unique_ptr<RequestSource> with_prefixes(std::unique_ptr<RequestSource> from,
                                                           const PrefixOptions& options, std::uint64_t seed);

}  // namespace wattle::workload
