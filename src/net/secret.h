#pragma once
// Secrets that are stored as digests only: SHA-256 (FIPS 180-4) of keys, which are random, so that neither a salt nor a
// slow hash is needed.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace wattle::net {

using Digest = std::array<std::uint8_t, 32>;

[[nodiscard]] Digest sha256(std::string_view bytes);
/// In constant time.
[[nodiscard]] bool same(const Digest& a, const Digest& b);
/// In constant time for texts of equal length.
[[nodiscard]] bool same_secret(std::string_view a, std::string_view b);
[[nodiscard]] std::string hex(const Digest& digest);
/// From 64 hexadecimal digits; none: it is not that.
[[nodiscard]] std::optional<Digest> digest_of_hex(std::string_view text);
/// 256 random bits as text: `prefix`, then 64 hexadecimal digits.
[[nodiscard]] std::string random_key(std::string_view prefix);
/// The token of an Authorization field of scheme Bearer (in any case, after any number of blanks; RFC 9110, 11.4);
/// empty: the field has another form.
[[nodiscard]] std::string_view bearer(std::string_view authorization);

}  // namespace wattle::net
