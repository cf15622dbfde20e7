#include "net/address_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>

namespace wattle::net {

bool AddressList::bytes_of(std::string_view text, Bytes& out, bool& v4) {
  boost::system::error_code ec;
  const auto address = boost::asio::ip::make_address(std::string(text), ec);
  if (ec) return false;
  v4 = address.is_v4();
  out = v4 ? boost::asio::ip::make_address_v6(boost::asio::ip::v4_mapped, address.to_v4()).to_bytes()
           : address.to_v6().to_bytes();
  return true;
}

bool AddressList::within(const Bytes& address, const Network& network) {
  for (int bit = 0; bit < network.bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if ((address[byte] & mask) != (network.address[byte] & mask)) return false;
  }
  return true;
}

Result<void> AddressList::add(std::string_view text, std::string_view where) {
  const std::size_t slash = text.find('/');
  Network network{};
  bool v4 = false;
  int bits = -1;
  const std::string_view digits = slash == std::string_view::npos ? std::string_view() : text.substr(slash + 1);
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  const bool stated = slash != std::string_view::npos;
  const bool read = bytes_of(text.substr(0, slash), network.address, v4);
  const int most = v4 ? 32 : 128;
  if (!read || (stated && (ec != std::errc() || end != digits.data() + digits.size() || bits < 0 || bits > most))) {
    return bad_input(std::string(where), fmt::format("\"{}\" is no network like 10.0.0.0/8 or fd00::/8", text));
  }
  network.bits = (stated ? bits : most) + (v4 ? 96 : 0);
  networks_.push_back(network);
  return {};
}

bool AddressList::allow(std::string_view text) const {
  static const AddressList kNever = [] {
    AddressList list;
    for (const char* network : {"169.254.0.0/16", "fe80::/10", "fd00:ec2::254", "224.0.0.0/4", "ff00::/8", "0.0.0.0/8",
                                "255.255.255.255", "::"}) {
      static_cast<void>(list.add(network, ""));
    }
    return list;
  }();
  Bytes address{};
  bool v4 = false;
  if (!bytes_of(text, address, v4)) return false;
  const auto in = [&](const AddressList& list) {
    return std::ranges::any_of(list.networks_, [&](const Network& network) { return within(address, network); });
  };
  return networks_.empty() ? !in(kNever) : in(*this);
}

}  // namespace wattle::net
