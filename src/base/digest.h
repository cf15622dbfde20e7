#pragma once
// A 64-bit fingerprint of a sequence of values: equal runs have equal digests, on every machine.
#include <concepts>
#include <cstdint>
#include <string_view>

namespace wattle {

/// FNV-1a over 64-bit words with a final avalanche. Not cryptographic.
class Digest {
 public:
  template <std::integral T>
  void add(T value) {
    state_ = (state_ ^ static_cast<std::uint64_t>(value)) * std::uint64_t{0x100000001b3};
    state_ ^= state_ >> 29U;
  }
  void add_text(std::string_view text) {
    add(text.size());
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace wattle
