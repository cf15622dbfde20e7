#pragma once
// Whose a request is, and what of what it says of itself is believed.
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

/// The first of these fields that is there, and its name.
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
  const TenantTerms* terms = nullptr;           ///< null: no keys are asked for, and nothing is limited
  std::shared_ptr<const void> table = nullptr;  ///< keeps them
};

class Callers {
 public:
  Callers(const GatewayOptions& options, Tenants& tenants) : options_(options), tenants_(tenants) {}

  /// By its API key, if keys are asked for: "Authorization: Bearer", "x-api-key" or "api-key"; else by X-Wattle-Tenant.
  /// `kept`: the connection's, whose requests come with one key, mostly: its digest is made once.
  std::expected<Caller, net::ApiError> who(const net::HeaderFields& headers, std::shared_ptr<const void>& kept);
  /// What the headers say of the request, as far as the caller's terms go: tier, origin, priority, lengths.
  std::expected<void, net::ApiError> read_wishes(const net::HeaderFields& headers, const Caller& caller,
                                                 Request& request) const;
  /// A place for a request with a prompt of so many tokens, whatever its headers say of it, or why it has none.
  Limits::Verdict enter(const Caller& caller, std::int32_t prompt_tokens, Instant now);

 private:
  std::expected<Caller, net::ApiError> named_tenant(std::string_view name);
  /// Whose key came last on a connection. Callers of one share its table by it, so that loops do not meet at a count.
  struct Known {
    std::string key;
    std::uint64_t version;  ///< of the keys
    std::shared_ptr<const KeyTable> table;
    const TenantTerms* terms;
    TenantId tenant;
  };
  /// The slackest tier that promises a first token within `ttft`; else the strictest there is.
  [[nodiscard]] std::optional<TierId> tier_for(Span ttft) const;
  /// The strictest tier that promises no first token before `ttft`; else the slackest there is.
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
