#include "gateway_security.h"

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "base/trimmed.h"
#include "net/tls.h"

namespace wattle::apps {

void add_security_flags(Command& command, SecurityFlags& flags) {
  command.add_option("--keys", flags.keys,
                     "JSON file of API keys (`wattle key` makes one): their SHA-256, tenants, limits; read again "
                     "when it changes. With it, requests need a key; without it, tenants are not authenticated");
  command.add_option("--tls-cert", flags.tls_certificate, "PEM file of the data plane's certificate chain: https only");
  command.add_option("--tls-key", flags.tls_key, "PEM file of its private key");
  command.add_option("--admin-token-file", flags.admin_token_file,
                     "the admin plane, except /health, answers only requests with this file's content as token "
                     "(Authorization: Bearer). Without it, it answers any program that reaches its address, but no "
                     "page in a browser");
  command
      .add_option("--admin-socket-mode", flags.admin_socket_mode,
                  "mode of the socket of --admin unix:PATH, octal: who may connect; --admin-user and "
                  "--admin-group determine who is answered, by the credentials that the kernel reports")
      .capture_default_str();
  command.add_option("--admin-user", flags.admin_users,
                     "user, by name or number, that --admin unix:PATH answers in addition to root and the gateway's "
                     "own; repeatable. No token is needed there");
  command.add_option("--admin-group", flags.admin_groups, "the same of a group; repeatable");
  command.add_option("--allow-worker", flags.worker_places,
                     "network in which workers may be, like 10.0.0.0/8 or fd00::/8; repeatable. Without it: any "
                     "address except link-local (cloud credentials), multicast and unspecified ones");
  command.add_option("--cors-origin", flags.cors_origins,
                     "origin of web pages that may use the data plane (CORS), or *; repeatable");
  command.add_option("--pass-path", flags.pass_paths,
                     "further path to which clients may POST, with * at its end for any suffix; repeatable. Beware: "
                     "engines have paths that load adapters, drop caches and stop them");
  command
      .add_option("--max-unanswered-body-bytes", flags.total_body_bytes,
                  "total size of the bodies of unanswered requests; beyond it, requests above 64 KiB get 503")
      .check(positive())
      .capture_default_str();
  command
      .add_option("--spare-descriptors", flags.spare_descriptors,
                  "file descriptors reserved for the admin plane, agents and files")
      .check(positive())
      .capture_default_str();
}

Result<std::string> secret_of(const std::string& file, const char* flag) {
  auto text = read_file(file);
  if (!text) return std::unexpected(text.error());
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  if (text->size() < 16) return bad_input(flag, file + " must hold at least 16 characters");
  const auto ends_line = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(*text, ends_line) || trimmed(*text) != *text) {
    return bad_input(flag, file + " must hold one line without blanks around it, as a header carries it");
  }
  return text;
}

Result<std::unique_ptr<gateway::KeyRing>> apply(const SecurityFlags& flags, gateway::GatewayOptions& options) {
  if (flags.tls_certificate.empty() != flags.tls_key.empty()) {
    return bad_input("--tls-cert", "and --tls-key go together");
  }
  if (!flags.tls_certificate.empty()) {
    auto context = net::TlsContext::server(flags.tls_certificate, flags.tls_key);
    if (!context) return std::unexpected(context.error());
    options.listen.tls = std::move(*context);
  }
  if (!flags.admin_token_file.empty()) {
    const auto token = secret_of(flags.admin_token_file, "--admin-token-file");
    if (!token) return std::unexpected(token.error());
    options.admin_token = net::sha256(*token);
  }
  std::uint32_t mode = 0;
  const std::string& digits = flags.admin_socket_mode;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), mode, 8);
  if (ec != std::errc() || end != digits.data() + digits.size() || mode > 0777) {
    return bad_input("--admin-socket-mode", "\"" + digits + "\" is not a file mode such as 0660");
  }
  for (auto& place : options.admin) place.unix_mode = mode;
  for (const auto& user : flags.admin_users) {
    if (auto ok = options.admin_peers.add_user(user, "--admin-user"); !ok) return std::unexpected(ok.error());
  }
  for (const auto& group : flags.admin_groups) {
    if (auto ok = options.admin_peers.add_group(group, "--admin-group"); !ok) return std::unexpected(ok.error());
  }
  for (const auto& network : flags.worker_places) {
    if (auto added = options.worker_places.add(network, "--allow-worker"); !added)
      return std::unexpected(added.error());
  }
  options.cors_origins = flags.cors_origins;
  options.pass_paths = flags.pass_paths;
  options.listen.total_body_bytes = static_cast<std::int64_t>(flags.total_body_bytes);
  options.spare_descriptors = flags.spare_descriptors;
  if (flags.keys.empty()) return std::unique_ptr<gateway::KeyRing>();
  auto ring = gateway::KeyRing::open(flags.keys);
  if (!ring) return std::unexpected(ring.error());
  options.keys = ring->get();
  return ring;
}

}  // namespace wattle::apps
