#include "net/secret.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "net/http_message.h"

namespace wattle::net {

Digest sha256(std::string_view bytes) {
  Digest out{};
  ::SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), out.data());
  return out;
}

bool same(const Digest& a, const Digest& b) { return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

/// As CRYPTO_memcmp, but eight bytes at a time: every request's key passes here.
bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  std::uint64_t differ = 0;
  for (std::size_t at = 0; at < a.size(); at += sizeof differ) {
    std::uint64_t x = 0;
    std::uint64_t y = 0;
    const std::size_t size = std::min(sizeof differ, a.size() - at);
    std::memcpy(&x, a.data() + at, size);
    std::memcpy(&y, b.data() + at, size);
    differ |= x ^ y;
    asm volatile("" : "+r"(differ));  // no compiler may know when it could stop
  }
  return differ == 0;
}

std::string hex(const Digest& digest) {
  std::string out;
  for (const std::uint8_t byte : digest) out += fmt::format("{:02x}", byte);
  return out;
}

std::optional<Digest> digest_of_hex(std::string_view text) {
  Digest out{};
  if (text.size() != 2 * out.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    out[i / 2] = static_cast<std::uint8_t>(out[i / 2] * 16 + digit);
  }
  return out;
}

std::string random_key(std::string_view prefix) {
  Digest bits{};
  WATTLE_CHECK(::RAND_bytes(bits.data(), static_cast<int>(bits.size())) == 1, "the system has random numbers");
  return std::string(prefix) + hex(bits);
}

std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kSpace = " \t";
  const std::size_t end = authorization.find_first_of(kSpace);
  if (end == std::string_view::npos || !same_name(authorization.substr(0, end), "Bearer")) return {};
  const std::size_t token = authorization.find_first_not_of(kSpace, end);
  return token == std::string_view::npos ? std::string_view() : authorization.substr(token);
}

}  // namespace wattle::net
