#include "net/peer.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

namespace wattle::net {

namespace {

constexpr std::size_t kNamesMax = 64 * 1024;  ///< of one entry of the user or group database

std::optional<std::uint32_t> number_in(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  return ec == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<Peer> peer_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.ss_family != AF_UNIX) {
    return std::nullopt;
  }
  ucred credentials{};
  size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  Peer peer{credentials.uid, {credentials.gid}};
  std::vector<gid_t> more(64);
  size = static_cast<socklen_t>(more.size() * sizeof(gid_t));
  int got = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, more.data(), &size);
  if (got != 0 && errno == ERANGE) {  // `size` says how much there is
    more.resize(size / sizeof(gid_t));
    got = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, more.data(), &size);
  }
  if (got == 0) {
    peer.groups.insert(peer.groups.end(), more.begin(),
                       more.begin() + static_cast<std::ptrdiff_t>(size / sizeof(gid_t)));
  }
  return peer;
}

Result<void> PeerList::add_user(std::string_view user, std::string_view where) {
  auto id = number_in(user);
  std::vector<char> space(kNamesMax);
  passwd entry{};
  passwd* found = nullptr;
  if (!id && ::getpwnam_r(std::string(user).c_str(), &entry, space.data(), space.size(), &found) == 0 &&
      found != nullptr) {
    id = entry.pw_uid;
  }
  if (!id) return bad_input(std::string(where), fmt::format("there is no user \"{}\"; say a name or a number", user));
  users_.push_back(*id);
  return {};
}

Result<void> PeerList::add_group(std::string_view group, std::string_view where) {
  auto id = number_in(group);
  std::vector<char> space(kNamesMax);
  ::group entry{};
  ::group* found = nullptr;
  if (!id && ::getgrnam_r(std::string(group).c_str(), &entry, space.data(), space.size(), &found) == 0 &&
      found != nullptr) {
    id = entry.gr_gid;
  }
  if (!id) return bad_input(std::string(where), fmt::format("there is no group \"{}\"; say a name or a number", group));
  groups_.push_back(*id);
  return {};
}

bool PeerList::allow(const Peer& peer) const {
  if (peer.user == 0 || peer.user == ::geteuid()) return true;
  const auto in_list = [](const std::vector<std::uint32_t>& list) {
    return [&list](std::uint32_t id) { return std::ranges::find(list, id) != list.end(); };
  };
  return in_list(users_)(peer.user) || std::ranges::any_of(peer.groups, in_list(groups_));
}

}  // namespace wattle::net
