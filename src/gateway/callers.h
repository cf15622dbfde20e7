#pragma once
// Identifies a request's caller, and decides which of its statements are believed.
#include <expected>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/keys.h"
#include "gateway/limits.h"
#include "gateway/options.h"
#include "gateway/tenants.h"
#include "net/exchange.h"
#include "net/openai.h"

namespace wattle::gateway {

/// The first of these fields that is present, and its name.
template <std::size_t N>
std::pair<const char*, std::string_view> first_of(const net::HeaderFields& headers, const char* const (&names)[N]) {
  for (const char* name : names) {
    if (const auto value = headers.get(name); !value.empty()) return {name, value};
  }
  return {"", {}};
}

/// Who is asking.
struct Caller {
  TenantId tenant;
  const TenantTerms* terms = nullptr;           ///< null: no keys are required, and nothing is limited
  std::shared_ptr<const void> table = nullptr;  ///< keeps `terms` alive
};

class Callers {
 public:
  Callers(const GatewayOptions& options, Tenants& tenants) : options_(options), tenants_(tenants) {}

  /// By its API key, if keys are required ("Authorization: Bearer", "x-api-key" or "api-key"); otherwise by
  /// X-Wattle-Tenant. `kept`: cached per connection, since its requests usually have the same key: the digest is
  /// computed once.
  std::expected<Caller, net::ApiError> who(const net::HeaderFields& headers, std::shared_ptr<const void>& kept);
  /// Reads tier, origin, priority and lengths from the headers, as far as the caller's terms permit.
  std::expected<void, net::ApiError> read_wishes(const net::HeaderFields& headers, const Caller& caller,
                                                 Request& request) const;
  /// A seat for a request with a prompt of this many tokens, or why it is refused.
  Limits::Verdict enter(const Caller& caller, std::int32_t prompt_tokens, Instant now);

 private:
  std::expected<Caller, net::ApiError> named_tenant(std::string_view name);
  /// The last caller on a connection. Its requests share the table through it, so that loops do not contend for one
  /// reference count.
  struct Known {
    std::string key;
    std::uint64_t version;  ///< of the keys
    std::shared_ptr<const KeyTable> table;
    const TenantTerms* terms;
    TenantId tenant;
  };
  /// The loosest tier that promises a first token within `ttft`; otherwise the strictest.
  [[nodiscard]] std::optional<TierId> tier_for(Span ttft) const;
  /// The strictest tier that promises no first token before `ttft`; otherwise the loosest.
  [[nodiscard]] TierId no_stricter(TierId tier, Span ttft) const;
  /// Tiers by their objective for the first token, the strictest first.
  [[nodiscard]] std::vector<std::pair<Span, TierId>> promises() const;
  std::expected<void, net::ApiError> read_tier(const net::HeaderFields& headers, const Caller& caller,
                                               Request& request) const;

  const GatewayOptions& options_;
  Tenants& tenants_;
  Limits limits_;
};

}  // namespace wattle::gateway
