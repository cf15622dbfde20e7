#include "policy/routing/prefix_affinity.h"

#include <algorithm>
#include <cmath>

#include "policy/routing/least_loaded.h"

namespace wattle::policy {

std::uint64_t PrefixAffinity::key_of(const Request& request) const {
  if (request.session != 0) return request.session;
  if (request.content == nullptr || request.content->chain.empty()) return 0;
  const auto& chain = request.content->chain;
  const auto blocks = static_cast<std::size_t>(std::max(1, options_.prefix_tokens / request.content->block_tokens));
  return chain[std::min(blocks, chain.size()) - 1];
}

RouteDecision PrefixAffinity::route(const Request& request, std::span<const InstanceView* const> candidates, Instant,
                                    RandomStream&) {
  const InstanceView* least = candidates.front();
  std::int64_t assigned = 1;  // this one, too
  for (const InstanceView* candidate : candidates) {
    assigned += candidate->assigned_requests;
    if (less_loaded(*candidate, *least)) least = candidate;
  }
  const std::uint64_t key = key_of(request);
  if (key == 0) return {least->id, "least loaded"};
  const double mean = static_cast<double>(assigned) / static_cast<double>(candidates.size());
  const double bound = std::max(std::ceil(options_.load_factor * mean), least->assigned_requests + 1.0);
  const InstanceView* best = nullptr;
  const InstanceView* wanted = nullptr;
  const auto rank = [&](const InstanceView& view) { return hash_of(key, static_cast<std::uint64_t>(view.id.value())); };
  for (const InstanceView* candidate : candidates) {
    if (wanted == nullptr || rank(*candidate) > rank(*wanted)) wanted = candidate;
    if (candidate->assigned_requests + 1.0 > bound) continue;
    if (best == nullptr || rank(*candidate) > rank(*best)) best = candidate;
  }
  const bool own = request.session != 0;
  if (best == wanted) return {best->id, own ? "session" : "prefix"};
  return {best->id, own ? "session, next in line" : "prefix, next in line"};
}

}  // namespace wattle::policy
