#pragma once
// Names of tenants as numbers; bounded, because names come from clients.
#include <expected>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "units/quantity.h"

namespace wattle::gateway {

/// Thread-safe. Tenant 0 are all that give no name, tenant 1 all beyond the bound.
class Tenants {
 public:
  static constexpr std::size_t kMax = 1024;
  static constexpr std::size_t kNameMax = 128;

  /// Errors: what is wrong with the name.
  std::expected<TenantId, std::string> id_of(std::string_view name);
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
