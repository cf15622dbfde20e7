#pragma once
#include <cstdint>

#include "policy/routing/routing.h"

namespace wattle::policy {

struct PrefixAffinityOptions {
  std::int32_t prefix_tokens = 512;  ///< prompts that are equal up to this length (or their end) belong together
  double load_factor = 1.25;         ///< maximum number of assigned requests as a multiple of the mean, >= 1
};

/// Sends requests of one session, or without a session those whose prompts begin alike, to the same instance, where
/// their KV may be cached, up to its load limit: consistent hashing with bounded loads (Mirrokni, Thorup and
/// Zadimoghaddam, SODA 2018; KubeAI's PrefixHash), by rendezvous hashing (Thaler and Ravishankar 1998), so that a
/// joining or leaving instance moves only its own keys. Requests with neither go to the least loaded instance.
class PrefixAffinity final : public RoutingPolicy {
 public:
  explicit PrefixAffinity(const PrefixAffinityOptions& options = {}) : options_(options) {}
  RouteDecision route(const Request& request, std::span<const InstanceView* const> candidates, Instant now,
                      RandomStream& random) override;
  [[nodiscard]] bool reads_steps() const override { return false; }
  [[nodiscard]] std::int32_t reads_prefix() const override { return options_.prefix_tokens; }

 private:
  /// Requests with equal keys go to one instance; 0: nothing is known.
  [[nodiscard]] std::uint64_t key_of(const Request& request) const;

  PrefixAffinityOptions options_;
};

}  // namespace wattle::policy
