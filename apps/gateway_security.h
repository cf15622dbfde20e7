#pragma once
// Flags of the gateway for authentication and authorisation.
#include <memory>
#include <string>
#include <vector>

#include "command_line.h"
#include "gateway/options.h"

namespace wattle::apps {

struct SecurityFlags {
  std::string keys;
  std::string tls_certificate;
  std::string tls_key;
  std::string admin_token_file;
  std::string admin_socket_mode = "0600";
  std::vector<std::string> admin_users;
  std::vector<std::string> admin_groups;
  std::vector<std::string> worker_places;
  std::vector<std::string> cors_origins;
  std::vector<std::string> pass_paths;
  std::uint64_t total_body_bytes = 256ULL << 20;
  std::int64_t spare_descriptors = 64;
};

void add_security_flags(Command& command, SecurityFlags& flags);

/// Sets `options`; the result owns what they refer to.
Result<std::unique_ptr<gateway::KeyRing>> apply(const SecurityFlags& flags, gateway::GatewayOptions& options);

/// The content of a file without the final line end.
Result<std::string> secret_of(const std::string& file, const char* flag);

}  // namespace wattle::apps
