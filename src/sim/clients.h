#pragma once
// Whose simulated requests are: traces do not say.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"
#include "model/request.h"

namespace wattle::sim {

/// Draws a tenant by the shares, from a stream of its own: the requests stay the same.
class Clients {
 public:
  Clients(std::vector<Tenant> tenants, std::uint64_t seed) : tenants_(std::move(tenants)), random_(seed, "tenants") {
    double sum = 0.0;
    for (const Tenant& tenant : tenants_) ends_.push_back(sum += tenant.share);
  }

  /// One draw; nothing where there are no tenants.
  void sign(Request& request) {
    if (tenants_.empty()) return;
    const auto drawn = std::ranges::upper_bound(ends_, random_.uniform() * ends_.back()) - ends_.begin();
    const auto i = std::min(static_cast<std::size_t>(drawn), tenants_.size() - 1);
    request.tenant = TenantId(static_cast<std::int32_t>(i));
    tenants_[i].apply_to(request);
  }

 private:
  std::vector<Tenant> tenants_;
  std::vector<double> ends_;  ///< of the shares, added up
  RandomStream random_;
};

}  // namespace wattle::sim
