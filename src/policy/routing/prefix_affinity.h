#pragma once
#include <cstdint>

#include "policy/routing/routing.h"

namespace wattle::policy {

struct PrefixAffinityOptions {
  std::int32_t prefix_tokens = 512;  ///< prompts equal so far belong together; shorter ones: as far as they go
  double load_factor = 1.25;         ///< an instance may have so many times the mean of assigned requests, >= 1
};

/// Sends requests of a session, and of those without one prompts that begin alike, to the same instance, where their KV
/// may be cached, but no more than its bound of load: consistent hashing with bounded loads (Mirrokni, Thorup and
/// Zadimoghaddam, SODA 2018; KubeAI's PrefixHash), by rendezvous hashing (Thaler and Ravishankar 1998), so that an
/// instance that comes or goes moves only what is its own. A prompt of which nothing is known goes where there is least
/// load.
class PrefixAffinity final : public RoutingPolicy {
 public:
  explicit PrefixAffinity(const PrefixAffinityOptions& options = {}) : options_(options) {}
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }
  [[nodiscard]] std::int32_t reads_prefix() const override { return options_.prefix_tokens; }

 private:
  /// What is sent to one instance; 0: nothing is known.
  [[nodiscard]] std::uint64_t key_of(const Request& request) const;

  PrefixAffinityOptions options_;
};

}  // namespace wattle::policy
