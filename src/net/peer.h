#pragma once
// The process at the other end of a Unix socket, as identified by the kernel: the other end cannot forge it.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wattle::net {

struct Peer {
  std::uint32_t user = 0;
  std::vector<std::uint32_t> groups;  ///< its own group, then its supplementary ones
};
/// The process that connected (SO_PEERCRED, SO_PEERGROUPS); none: not a Unix socket.
[[nodiscard]] std::optional<Peer> peer_of(int socket);

/// Who may use a Unix socket: root, the user that runs this process, and those added.
class PeerList {
 public:
  /// By name or number. `where` names the flag in the error.
  Result<void> add_user(std::string_view user, std::string_view where);
  Result<void> add_group(std::string_view group, std::string_view where);
  [[nodiscard]] bool allow(const Peer& peer) const;

 private:
  std::vector<std::uint32_t> users_;
  std::vector<std::uint32_t> groups_;
};

}  // namespace wattle::net
