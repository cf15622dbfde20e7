#include "gateway/callers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "gateway/prompt_scale.h"
#include "net/clock.h"

namespace wattle::gateway {

namespace {

template <typename Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  return ec == std::errc() && end == text.data() + text.size();
}

std::unexpected<net::ApiError> wrong(const char* field, std::string_view what) {
  return std::unexpected(net::ApiError{400, fmt::format("{} {}", field, what), "invalid_request_error", field, ""});
}

template <typename List>
std::optional<std::int32_t> position(const List& list, std::string_view name) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == name) return static_cast<std::int32_t>(i);
  }
  return std::nullopt;
}

}  // namespace

std::expected<Caller, net::ApiError> Callers::who(const net::HeaderFields& headers, std::shared_ptr<const void>& kept) {
  const auto named = headers.get("X-Wattle-Tenant");
  if (options_.keys == nullptr) return named_tenant(named);
  std::string_view key = net::bearer(headers.get(kBearerHeader));
  if (key.empty()) key = first_of(headers, kKeyHeaders).second;
  auto known = std::static_pointer_cast<const Known>(kept);
  const std::uint64_t version = options_.keys->version();
  if (!known || known->version != version || !net::same_secret(known->key, key)) {
    auto table = options_.keys->table();
    const TenantTerms* const terms = table->find(key);
    if (terms == nullptr) {
      return std::unexpected(net::ApiError{401, key.empty() ? "an API key is required" : "the API key is not known",
                                           "invalid_request_error", "", "invalid_api_key"});
    }
    const auto its = named_tenant(terms->tenant);
    if (!its) return its;
    known = std::make_shared<const Known>(Known{std::string(key), version, std::move(table), terms, its->tenant});
    kept = known;
  }
  if (!named.empty() && named != known->terms->tenant) {
    return std::unexpected(net::ApiError{403, "the API key is not that tenant's", "invalid_request_error",
                                         "X-Wattle-Tenant", "wrong_tenant"});
  }
  return Caller{known->tenant, known->terms, known};
}

std::expected<Caller, net::ApiError> Callers::named_tenant(std::string_view name) {
  const auto tenant = tenants_.id_of(name);
  if (!tenant)
    return std::unexpected(net::ApiError{400, tenant.error(), "invalid_request_error", "X-Wattle-Tenant", ""});
  return Caller{*tenant};
}

std::vector<std::pair<Span, TierId>> Callers::promises() const {
  std::vector<std::pair<Span, TierId>> out;
  const auto& all = options_.service.objectives;
  for (std::size_t t = 0; all && t < all->tiers().size(); ++t) {
    const TierId tier(static_cast<std::int32_t>(t));
    out.emplace_back(all->of(tier, ClassId(0)).ttft.value_or(Span::max()), tier);
  }
  std::ranges::stable_sort(out, {}, &std::pair<Span, TierId>::first);
  return out;
}

std::optional<TierId> Callers::tier_for(Span ttft) const {
  const auto all = promises();  // few, and read for requests that ask only
  if (all.empty()) return std::nullopt;
  const auto later = std::ranges::upper_bound(all, ttft, {}, &std::pair<Span, TierId>::first);
  return later == all.begin() ? all.front().second : std::prev(later)->second;
}

TierId Callers::no_stricter(TierId tier, Span ttft) const {
  const auto all = promises();
  const auto own = std::ranges::find(all, tier, &std::pair<Span, TierId>::second);
  if (own == all.end() || own->first >= ttft) return tier;
  const auto enough = std::ranges::lower_bound(all, ttft, {}, &std::pair<Span, TierId>::first);
  return enough == all.end() ? all.back().second : enough->second;
}

std::expected<void, net::ApiError> Callers::read_tier(const net::HeaderFields& headers, const Caller& caller,
                                                      Request& request) const {
  const auto tightest = caller.terms != nullptr ? caller.terms->tightest_ttft : std::nullopt;
  if (const auto name = headers.get("X-Wattle-Tier"); !name.empty()) {
    const auto found =
        options_.service.objectives ? position(options_.service.objectives->tiers(), name) : std::nullopt;
    if (!found) return wrong("X-Wattle-Tier", "must be the name of a tier of this service");
    request.tier = TierId(*found);
  } else if (const auto [field, text] = first_of(headers, {"x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"}); !text.empty()) {
    double ms = 0;
    if (!read_number(text, ms) || !(ms > 0.0 && ms < 1e9))
      return wrong(field, "must be a number of milliseconds above 0");
    const Span wanted = Span::from_seconds(ms * 1e-3);
    if (const auto tier = tier_for(wanted)) request.tier = *tier;
  }
  if (tightest) request.tier = no_stricter(request.tier, *tightest);
  return {};
}

std::expected<void, net::ApiError> Callers::read_wishes(const net::HeaderFields& headers, const Caller& caller,
                                                        Request& request) const {
  request.tenant = caller.tenant;
  if (const Tenant* known = tenants_.known(caller.tenant)) known->apply_to(request);
  if (auto tier = read_tier(headers, caller, request); !tier) return tier;
  if (const auto name = headers.get("X-Wattle-Origin"); !name.empty()) {
    const auto found = position(options_.sites, name);
    if (!found) return wrong("X-Wattle-Origin", "must be the name of a site of this service");
    request.origin = SiteId(*found);
  }
  const std::int32_t own = request.priority;
  if (const auto [field, text] = first_of(headers, {"X-Wattle-Priority", "X-SMG-Priority"}); !text.empty()) {
    if (!read_number(text, request.priority)) return wrong(field, "must be a whole number");
    if (caller.terms != nullptr)
      request.priority = std::min(request.priority, std::max(own, caller.terms->most_priority));
  }
  if (caller.terms != nullptr && !caller.terms->hints) return {};
  const auto hint = [&](const char* field, std::int32_t& tokens) {
    const auto text = headers.get(field);
    return text.empty() || (read_number(text, tokens) && tokens >= 1 && tokens <= PromptScale::kMostTokens);
  };
  for (const auto& [field, tokens] :
       {std::pair{"X-Wattle-Prompt-Tokens", &request.prompt_tokens},
        std::pair{"X-Wattle-Predicted-Output-Tokens", &request.predicted_output_tokens}}) {
    if (!hint(field, *tokens)) return wrong(field, "must be a positive integer, at most 2^30");
  }
  return {};
}

Limits::Verdict Callers::enter(const Caller& caller, std::int32_t prompt_tokens, Instant now) {
  if (caller.terms == nullptr) return {};
  return limits_.enter(*caller.terms, caller.tenant, prompt_tokens, now);
}

}  // namespace wattle::gateway
