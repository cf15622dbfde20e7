#include "gateway/tenants.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

namespace wattle::gateway {

std::expected<TenantId, std::string> Tenants::id_of(std::string_view name) {
  if (name.empty()) return TenantId{0};
  if (name.size() > kNameMax) {
    return std::unexpected(fmt::format("X-Wattle-Tenant must have at most {} bytes", kNameMax));
  }
  // Names go into JSON, the journal and metrics, which hold text.
  const bool control = std::ranges::any_of(name, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; });
  if (control || !simdjson::validate_utf8(name.data(), name.size())) {
    return std::unexpected(std::string("X-Wattle-Tenant must be UTF-8 text without control characters"));
  }
  const std::lock_guard lock(mutex_);
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  if (names_.size() >= kMax) return TenantId{1};
  const TenantId id(static_cast<std::int32_t>(names_.size()));
  names_.emplace_back(name);
  ids_.emplace(name, id);
  return id;
}

}  // namespace wattle::gateway
