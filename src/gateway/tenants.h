#pragma once
// Maps tenants' names to numbers; bounded, because names come from clients.
#include <expected>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/request.h"
#include "units/quantity.h"

namespace wattle::gateway {

/// Thread-safe. Tenant 0 is all requests without a name, tenant 1 all names beyond the bound; those known from the
/// start follow.
class Tenants {
 public:
  explicit Tenants(std::vector<Tenant> known = {}) : known_(std::move(known)) {
    for (const Tenant& tenant : known_) {
      ids_.emplace(tenant.name, TenantId(static_cast<std::int32_t>(names_.size())));
      names_.push_back(tenant.name);
    }
  }
  /// The known tenant; null: unknown.
  [[nodiscard]] const Tenant* known(TenantId id) const {
    const auto i = static_cast<std::size_t>(id.value());
    return i >= kUnnamed && i - kUnnamed < known_.size() ? &known_[i - kUnnamed] : nullptr;
  }
  static constexpr std::size_t kMax = 1024;
  static constexpr std::size_t kNameMax = 128;

  /// Errors: what is wrong with the name.
  std::expected<TenantId, std::string> id_of(std::string_view name);
  [[nodiscard]] std::string name_of(TenantId id) const {
    const std::lock_guard lock(mutex_);
    return names_[static_cast<std::size_t>(id.value())];
  }

 private:
  static constexpr std::size_t kUnnamed = 2;
  std::vector<Tenant> known_;
  mutable std::mutex mutex_;
  std::vector<std::string> names_{"", "(others)"};
  std::map<std::string, TenantId, std::less<>> ids_;
};

}  // namespace wattle::gateway
