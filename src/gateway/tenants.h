#pragma once
// Names of tenants as numbers; bounded, because names come from clients.
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "units/quantity.h"

namespace wattle::gateway {

/// Thread-safe. Tenant 0 is whoever gives no name, tenant 1 all beyond the bound.
class Tenants {
 public:
  static constexpr std::size_t kMax = 1024;
  static constexpr std::size_t kNameMax = 128;

  TenantId id_of(std::string_view name) {
    if (name.empty()) return TenantId{0};
    const std::lock_guard lock(mutex_);
    if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
    if (names_.size() >= kMax || name.size() > kNameMax) return TenantId{1};
    const TenantId id(static_cast<std::int32_t>(names_.size()));
    names_.emplace_back(name);
    ids_.emplace(name, id);
    return id;
  }
  [[nodiscard]] std::string name_of(TenantId id) const {
    const std::lock_guard lock(mutex_);
    return names_[static_cast<std::size_t>(id.value())];
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> names_{"", "(others)"};
  std::map<std::string, TenantId, std::less<>> ids_;
};

}  // namespace wattle::gateway
