#pragma once
// Which addresses may be connected to.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace wattle::net {

/// Networks in CIDR form. If there are none, every address is allowed except those that no machine of a fleet has:
/// link-local ones (where clouds serve their machines' credentials), multicast and unspecified addresses.
class AddressList {
 public:
  /// "10.0.0.0/8", "fd00::/8", or one address. `where` names the flag in the error.
  Result<void> add(std::string_view network, std::string_view where);
  /// `address`: numeric; anything else is not allowed.
  [[nodiscard]] bool allow(std::string_view address) const;

 private:
  using Bytes = std::array<std::uint8_t, 16>;  ///< IPv4 as ::ffff:a.b.c.d
  struct Network {
    Bytes address;
    int bits;
  };
  [[nodiscard]] static bool bytes_of(std::string_view text, Bytes& out, bool& v4);
  [[nodiscard]] static bool within(const Bytes& address, const Network& network);
  std::vector<Network> networks_;
};

}  // namespace wattle::net
