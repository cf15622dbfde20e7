// Where requests go, out of a URL.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/un.h>

#include <algorithm>
#include <array>

#include "net/client.h"
#include "net/server.h"

namespace wattle::net {

namespace {

constexpr std::string_view kUnix = "unix:";
/// As OpenAI's clients write a base URL; here targets say it themselves.
constexpr std::string_view kApi = "/v1";

/// A URL's parts; of a Unix socket the path alone.
struct Parts {
  std::string authority;
  std::string host;
  std::uint16_t port = 0;
  std::string prefix;
  std::string unix_path;
};

/// URLs go into header lines and labels: what would end or change those is in none.
bool is_sound(std::string_view url, bool is_unix) {
  return std::ranges::none_of(url, [is_unix](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7f || (byte > 0x7f && !is_unix) || c == '"' || c == '\\';
  });
}

Result<Parts> parts_of(std::string_view url, std::string_view where) {
  Parts out;
  const bool is_unix = url.starts_with(kUnix);
  if (!is_sound(url, is_unix)) {
    return bad_input(std::string(where), "a URL has no spaces, quotes, backslashes or control characters");
  }
  if (is_unix) {
    out.unix_path = url.substr(kUnix.size());
    if (out.unix_path.empty() || out.unix_path.size() >= sizeof sockaddr_un{}.sun_path) {
      return bad_input(std::string(where),
                       fmt::format("\"{}\" is not the path of a socket, like unix:/run/wattle/admin.sock", url));
    }
    return out;
  }
  std::string_view rest = url;
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.find("://") != std::string_view::npos) {
    return bad_input(std::string(where), fmt::format("\"{}\": only http:// URLs are spoken here", url));
  }
  if (rest.find_first_of("?#@") != std::string_view::npos) {
    return bad_input(std::string(where), fmt::format("\"{}\": a base URL has no query, no fragment and no user", url));
  }
  const std::size_t slash = rest.find('/');
  out.authority = rest.substr(0, slash);
  if (slash != std::string_view::npos) out.prefix = rest.substr(slash);
  const auto trim = [&] {
    while (out.prefix.ends_with('/')) out.prefix.pop_back();
  };
  trim();
  if (out.prefix.ends_with(kApi)) out.prefix.resize(out.prefix.size() - kApi.size());
  trim();
  std::string with_port(out.authority);
  const std::size_t colon = with_port.rfind(':');
  if (colon == std::string::npos || with_port.ends_with(']')) with_port += ":80";
  const auto parsed = parse_host_port(with_port, where);
  if (!parsed || parsed->port == 0 || out.authority.empty()) {
    return bad_input(std::string(where), fmt::format("\"{}\" is not a URL like http://127.0.0.1:8100", url));
  }
  out.host = parsed->host;
  out.port = parsed->port;
  return out;
}

}  // namespace

namespace {

Endpoint endpoint_of(Parts parts) {
  Endpoint out;
  if (!parts.unix_path.empty()) {
    out.url = out.place = std::string(kUnix) + parts.unix_path;
    out.host_port = "localhost";
    out.unix_path = std::move(parts.unix_path);
    return out;
  }
  out.port = parts.port;
  out.url = fmt::format("http://{}{}", parts.authority, parts.prefix);
  out.host_port = std::move(parts.authority);
  out.prefix = std::move(parts.prefix);
  return out;
}

}  // namespace

Result<Endpoint> unresolved_endpoint(std::string_view url, std::string_view where) {
  auto parts = parts_of(url, where);
  if (!parts) return std::unexpected(parts.error());
  return endpoint_of(std::move(*parts));
}

Result<Endpoint> resolve_endpoint(std::string_view url, std::string_view where) {
  auto parts = parts_of(url, where);
  if (!parts) return std::unexpected(parts.error());
  if (!parts->unix_path.empty()) return endpoint_of(std::move(*parts));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(parts->host.c_str(), std::to_string(parts->port).c_str(), &hints, &found);
  std::array<char, NI_MAXHOST> text{};
  const bool said = error == 0 && ::getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0,
                                                NI_NUMERICHOST) == 0;
  if (error == 0) ::freeaddrinfo(found);
  if (!said) {
    return external_failure(std::string(where),
                            fmt::format("cannot resolve \"{}\": {}", parts->host, ::gai_strerror(error)));
  }
  Endpoint out = endpoint_of(std::move(*parts));
  out.address = text.data();
  out.place = HostPort{out.address, out.port}.text();
  return out;
}

Result<std::string> normalised_url(std::string_view url, std::string_view where) {
  const auto parts = parts_of(url, where);
  if (!parts) return std::unexpected(parts.error());
  if (!parts->unix_path.empty()) return std::string(url);
  std::string host = parts->host;
  std::array<char, INET6_ADDRSTRLEN> same{};  // ::1 is 0:0:0:0:0:0:0:1
  in6_addr address{};
  if (::inet_pton(AF_INET6, host.c_str(), &address) == 1) {
    host = ::inet_ntop(AF_INET6, &address, same.data(), same.size());
  }
  std::ranges::transform(host, host.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return fmt::format("http://{}{}", HostPort{host, parts->port}.text(), parts->prefix);
}

Result<std::string> engine_name(const std::string& step_reports, std::string_view url, std::string_view where) {
  return step_reports.empty() ? normalised_url(url, where) : step_reports;
}

}  // namespace wattle::net
