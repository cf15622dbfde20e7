#pragma once
// Just enough msgpack to read a known small message in place: no tree, no allocation, no recursion.
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

namespace wattle::telemetry {

/// Reads values one after another. After the first failure everything fails; `truncated()` says whether for want of
/// bytes.
class MsgpackReader {
 public:
  explicit MsgpackReader(std::span<const std::uint8_t> bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool truncated() const { return truncated_; }

  enum class Kind : std::uint8_t { Nil, Bool, Integer, Real, Text, Array, Map, Other, None };
  /// Of the next value, without reading it.
  [[nodiscard]] Kind peek() const {
    if (failed_ || at_ == end_) return Kind::None;
    const std::uint8_t b = *at_;
    if (b < 0x80 || b >= 0xe0 || (b >= 0xcc && b <= 0xd3)) return Kind::Integer;
    if (b < 0x90) return Kind::Map;
    if (b < 0xa0) return Kind::Array;
    if (b < 0xc0 || (b >= 0xd9 && b <= 0xdb)) return Kind::Text;
    if (b == 0xc0) return Kind::Nil;
    if (b == 0xc2 || b == 0xc3) return Kind::Bool;
    if (b == 0xca || b == 0xcb) return Kind::Real;
    if (b == 0xdc || b == 0xdd) return Kind::Array;
    if (b == 0xde || b == 0xdf) return Kind::Map;
    return Kind::Other;
  }

  /// 0 after a failure, here and below. An unsigned value beyond 63 bits fails.
  std::int64_t integer() {
    const std::uint8_t b = byte();
    if (failed_) return 0;
    if (b < 0x80) return b;
    if (b >= 0xe0) return static_cast<std::int8_t>(b);
    switch (b) {
      case 0xcc:
        return static_cast<std::int64_t>(big_endian(1));
      case 0xcd:
        return static_cast<std::int64_t>(big_endian(2));
      case 0xce:
        return static_cast<std::int64_t>(big_endian(4));
      case 0xcf: {
        const std::uint64_t v = big_endian(8);
        if (v > static_cast<std::uint64_t>(INT64_MAX)) return fail(), 0;
        return static_cast<std::int64_t>(v);
      }
      case 0xd0:
        return static_cast<std::int8_t>(big_endian(1));
      case 0xd1:
        return static_cast<std::int16_t>(big_endian(2));
      case 0xd2:
        return static_cast<std::int32_t>(big_endian(4));
      case 0xd3:
        return static_cast<std::int64_t>(big_endian(8));
      default:
        return fail(), 0;
    }
  }
  /// Accepts integers too: writers shorten 0.0.
  double real() {
    const Kind kind = peek();
    if (kind == Kind::Integer) return static_cast<double>(integer());
    const std::uint8_t b = byte();
    if (failed_) return 0.0;
    if (b == 0xca) return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(big_endian(4))));
    if (b == 0xcb) return std::bit_cast<double>(big_endian(8));
    return fail(), 0.0;
  }
  bool boolean() {
    const std::uint8_t b = byte();
    if (b != 0xc2 && b != 0xc3) fail();
    return !failed_ && b == 0xc3;
  }
  std::string_view text() {
    const std::uint8_t b = byte();
    if (failed_) return {};
    if (b >= 0xa0 && b < 0xc0) return bytes(b & 0x1fU);
    if (b >= 0xd9 && b <= 0xdb) return bytes(big_endian(1U << (b - 0xd9U)));
    return fail(), std::string_view();
  }
  /// Number of elements that follow; for a map, of pairs.
  std::uint64_t array() { return header(0x90, 0xdc); }
  std::uint64_t map() { return header(0x80, 0xde); }

  /// Passes over one value, whatever it holds. Nesting costs a counter, not stack.
  void skip() {
    std::uint64_t left = 1;
    while (left > 0 && !failed_) {
      --left;
      switch (peek()) {
        case Kind::Array:
          left += array();
          break;
        case Kind::Map: {
          const std::uint64_t pairs = map();
          left += 2 * pairs;
          break;
        }
        case Kind::Integer:
          integer_bytes();
          break;
        case Kind::Real:
          real();
          break;
        case Kind::Text:
          text();
          break;
        case Kind::Nil:
        case Kind::Bool:
          byte();
          break;
        case Kind::Other:
          skip_binary();
          break;
        case Kind::None:
          byte();
          break;  // fails
      }
    }
  }

 private:
  void fail() { failed_ = true; }
  std::uint8_t byte() {
    if (failed_ || at_ == end_) {
      truncated_ = truncated_ || !failed_;
      failed_ = true;
      return 0xc1;  // never a value
    }
    return *at_++;
  }
  std::uint64_t big_endian(unsigned size) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) value = value << 8U | byte();
    return failed_ ? 0 : value;
  }
  std::string_view bytes(std::uint64_t size) {
    if (failed_) return {};
    if (size > static_cast<std::uint64_t>(end_ - at_)) {
      truncated_ = true;
      fail();
      return {};
    }
    const std::string_view view(reinterpret_cast<const char*>(at_), size);
    at_ += size;
    return view;
  }
  std::uint64_t header(std::uint8_t fixed, std::uint8_t wide) {
    const std::uint8_t b = byte();
    if (failed_) return 0;
    if ((b & 0xf0U) == fixed) return b & 0x0fU;
    if (b == wide) return big_endian(2);
    if (b == wide + 1) return big_endian(4);
    return fail(), std::uint64_t{0};
  }
  void integer_bytes() {
    const std::uint8_t b = byte();
    if (b >= 0xcc && b <= 0xcf) big_endian(1U << (b - 0xccU));
    if (b >= 0xd0 && b <= 0xd3) big_endian(1U << (b - 0xd0U));
  }
  void skip_binary() {
    const std::uint8_t b = byte();
    if (b >= 0xc4 && b <= 0xc6) {
      bytes(big_endian(1U << (b - 0xc4U)));
    } else if (b >= 0xc7 && b <= 0xc9) {
      bytes(big_endian(1U << (b - 0xc7U)) + 1);
    } else if (b >= 0xd4 && b <= 0xd8) {
      bytes((std::uint64_t{1} << (b - 0xd4U)) + 1);
    } else {
      fail();
    }
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool failed_ = false;
  bool truncated_ = false;
};

}  // namespace wattle::telemetry
