#include "gateway/relay_fields.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/trimmed.h"
#include "gateway/keys.h"
#include "net/append.h"

namespace wattle::gateway {

namespace {

/// Hop-by-hop fields (RFC 9110 7.6.1), those we set ourselves (an engine's load is for us to ask), those that would
/// change the answer's encoding, and those by which llm-d's sidecar learns where to fetch KV.
bool travels(std::string_view name) {
  constexpr std::string_view kStay[] = {"Connection",
                                        "Keep-Alive",
                                        "Proxy-Authenticate",
                                        "Proxy-Authorization",
                                        "TE",
                                        "Trailer",
                                        "Transfer-Encoding",
                                        "Upgrade",
                                        "Host",
                                        "Content-Length",
                                        "Expect",
                                        "Accept-Encoding",
                                        "X-Request-Id",
                                        "Proxy-Connection",
                                        "Content-Type",
                                        "X-Prefiller-Host-Port",
                                        "X-Prefiller-Url",
                                        "X-Encoder-Hosts-Ports",
                                        "X-Data-Parallel-Host-Port",
                                        "Endpoint-Load-Metrics-Format"};
  constexpr std::uint32_t kLengths = [](const auto& names) {
    std::uint32_t lengths = 0;
    for (const std::string_view one : names) lengths |= 1U << one.size();
    return lengths;
  }(kStay);
  if (name.size() > 31 || (kLengths >> name.size() & 1U) == 0) return true;
  return std::ranges::none_of(kStay, [name](std::string_view s) { return net::same_name(s, name); });
}

/// Fields that Connection names are for us alone (RFC 9110 7.6.1): those of an upgrade that we do not make (7.8), say.
bool named_by_connection(const net::HeaderFields& fields, std::string_view name) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto field = fields.at(i);
    if (!net::same_name(field.name, "connection")) continue;
    std::string_view rest = field.value;
    while (!rest.empty()) {
      const std::string_view option = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), option.size() + 1));
      if (net::same_name(trimmed(option), name)) return true;
    }
  }
  return false;
}

bool is_credential(std::string_view name) {
  const auto same = [name](const char* header) { return net::same_name(name, header); };
  return same(kBearerHeader) || std::ranges::any_of(kKeyHeaders, same);
}

/// Fields that say whose child a span is.
bool is_of_trace(std::string_view name) {
  return net::same_name(name, "traceparent") || net::same_name(name, "tracestate");
}

}  // namespace

void append_passed_on(std::string& lines, const net::HeaderFields& fields, bool own_keys, bool own_trace) {
  const std::string_view options = fields.get("Connection");
  const bool names = !options.empty() && !net::same_name(options, "keep-alive") && !net::same_name(options, "close");
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto field = fields.at(i);
    if (names && named_by_connection(fields, field.name)) continue;
    if (!travels(field.name) || (own_keys && is_credential(field.name))) continue;
    if (own_trace && is_of_trace(field.name)) continue;
    net::append(lines, {field.name, ": ", field.value, "\r\n"});
  }
}

bool was_sent_by(const net::HeaderFields& fields, std::string_view via) {
  if (fields.get("Via").empty()) return false;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto field = fields.at(i);
    if (net::same_name(field.name, "Via") && field.value.find(via) != std::string_view::npos) return true;
  }
  return false;
}

void append_passed_back(std::string& lines, const net::HeaderFields& fields) {
  constexpr std::string_view kBack[] = {"Retry-After", "WWW-Authenticate", "Location"};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const auto field = fields.at(i);
    for (const std::string_view name : kBack) {
      if (net::same_name(field.name, name)) net::append(lines, {name, ": ", field.value, "\r\n"});
    }
  }
}

}  // namespace wattle::gateway
