#include "gateway/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/text_line.h"

namespace wattle::gateway {

namespace {

using Json = nlohmann::json;

std::uint64_t beginning(const net::Digest& digest) {
  std::uint64_t out = 0;
  std::memcpy(&out, digest.data(), sizeof out);
  return out;
}

Result<void> known_only(const Json& object, std::span<const std::string_view> keys, const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(keys, key) == keys.end()) {
      return bad_input(where, fmt::format("unknown key \"{}\"; known: {}", key, fmt::join(keys, ", ")));
    }
  }
  return {};
}

Result<TenantTerms> read_terms(const std::string& name, const Json& object, const std::string& where) {
  static constexpr std::array<std::string_view, 6> kKeys{"requests_per_minute", "tokens_per_minute", "concurrent",
                                                         "most_priority",       "tightest_ttft_ms",  "hints"};
  TenantTerms terms;
  terms.tenant = name;
  if (name.empty()) return bad_input(where, "a tenant's name must not be empty");
  if (!object.is_object()) return bad_input(where, "must be an object");
  if (auto ok = known_only(object, kKeys, where); !ok) return std::unexpected(ok.error());
  std::optional<Error> problem;
  const auto number = [&](const char* key, double least) -> std::optional<double> {
    const auto found = object.find(key);
    if (found == object.end()) return std::nullopt;
    if (found->is_number() && found->get<double>() >= least && found->get<double>() <= 1e12)
      return found->get<double>();
    problem = Error{ErrorKind::BadInput, where, fmt::format("{} must be a number of at least {}", key, least)};
    return std::nullopt;
  };
  terms.requests_per_minute = number("requests_per_minute", 0);
  terms.tokens_per_minute = number("tokens_per_minute", 0);
  if (const auto most = number("concurrent", 1)) terms.concurrent = static_cast<int>(std::min(*most, 1e9));
  if (const auto most = number("most_priority", -1e9)) {
    terms.most_priority = static_cast<std::int32_t>(std::min(*most, 1e9));
  }
  if (const auto ms = number("tightest_ttft_ms", 0)) terms.tightest_ttft = Span::from_seconds(*ms * 1e-3);
  if (const auto hints = object.find("hints"); hints != object.end()) {
    if (!hints->is_boolean()) return bad_input(where, "hints must be true or false");
    terms.hints = hints->get<bool>();
  }
  if (problem) return std::unexpected(*problem);
  return terms;
}

}  // namespace

Result<KeyTable> KeyTable::read(std::string_view text, std::string_view where) {
  static constexpr std::array<std::string_view, 2> kTop{"tenants", "keys"};
  static constexpr std::array<std::string_view, 3> kOfKey{"sha256", "tenant", "note"};
  const std::string file(where);
  const auto wrong = [&](const std::string& at, std::string what) {
    return bad_input(file + ": " + at, std::move(what));
  };
  Json body;
  try {
    body = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return bad_input(fmt::format("{}:{}", file, line_at(text, error.byte)), "this is not JSON");
  } catch (const Json::exception&) {
    return bad_input(file, "a number is out of range");
  }
  if (!body.is_object()) return bad_input(file, "must be a JSON object with \"keys\" and, maybe, \"tenants\"");
  if (auto ok = known_only(body, kTop, file); !ok) return std::unexpected(ok.error());
  KeyTable out;
  if (const auto tenants = body.find("tenants"); tenants != body.end()) {
    if (!tenants->is_object()) return wrong("tenants", "must be an object");
    for (const auto& [name, terms] : tenants->items()) {
      auto read = read_terms(name, terms, file + ": tenants." + name);
      if (!read) return std::unexpected(read.error());
      out.tenants_.emplace(name, std::move(*read));
    }
  }
  const auto keys = body.find("keys");
  if (keys == body.end() || !keys->is_array()) return wrong("keys", "must be an array");
  for (std::size_t i = 0; i < keys->size(); ++i) {
    const Json& key = (*keys)[i];
    const std::string at = fmt::format("{}: keys[{}]", file, i);
    if (!key.is_object()) return bad_input(at, "must be an object");
    if (auto ok = known_only(key, kOfKey, at); !ok) return std::unexpected(ok.error());
    const auto stated = [&key](const char* name) {
      const auto found = key.find(name);
      return found != key.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    const auto digest = net::digest_of_hex(stated("sha256"));
    if (!digest)
      return bad_input(at, "sha256 must be the 64 hexadecimal digits of the key's SHA-256 (`wattle key` makes one)");
    const std::string tenant = stated("tenant");
    if (tenant.empty()) return bad_input(at, "tenant must say whose it is");
    const auto [terms, fresh] = out.tenants_.try_emplace(tenant);
    if (fresh) terms->second.tenant = tenant;
    out.keys_.emplace(beginning(*digest), Key{*digest, &terms->second});
  }
  return out;
}

const TenantTerms* KeyTable::find(std::string_view key) const {
  if (key.empty()) return nullptr;
  const net::Digest digest = net::sha256(key);  // of what a guesser cannot steer: a bucket tells nothing
  const auto [first, last] = keys_.equal_range(beginning(digest));
  const TenantTerms* found = nullptr;
  for (auto at = first; at != last; ++at) {
    if (net::same(at->second.digest, digest)) found = at->second.terms;
  }
  return found;
}

Result<std::unique_ptr<KeyRing>> KeyRing::open(std::string path) {
  auto ring = std::unique_ptr<KeyRing>(new KeyRing());
  ring->path_ = std::move(path);
  if (const auto problem = ring->look()) return std::unexpected(*problem);
  return ring;
}

std::optional<Error> KeyRing::look() {
  auto text = read_file(path_);
  if (!text && std::exchange(unreadable_, true)) return std::nullopt;  // said
  if (!text) return text.error();
  unreadable_ = false;
  if (table_ && *text == seen_) return std::nullopt;
  seen_ = std::move(*text);
  auto read = KeyTable::read(seen_, path_);
  if (!read) return read.error();
  auto fresh = std::make_shared<const KeyTable>(std::move(*read));
  const std::lock_guard lock(mutex_);
  table_ = std::move(fresh);
  version_.fetch_add(1, std::memory_order_release);
  return std::nullopt;
}

}  // namespace wattle::gateway
