#pragma once
// How a struct member reads from and writes to a text-edge value: the only place where units turn into numbers.
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::config {

/// A value at the text edge; monostate means absent.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

enum class OptionType : std::uint8_t { Boolean, Integer, Number, Text, Choice, Integers };

/// Factor from a text unit to the struct's own unit (bytes, FLOP/s; for Span: nanoseconds).
[[nodiscard]] constexpr double factor_of(std::string_view unit) {
  if (unit == "GB" || unit == "GB/s") return 1e9;
  if (unit == "TFLOP/s") return 1e12;
  return 1.0;
}
[[nodiscard]] constexpr double nanoseconds_of(std::string_view unit) {
  if (unit == "s") return 1e9;
  if (unit == "ms") return 1e6;
  if (unit == "us") return 1e3;
  return 1.0;
}

template <typename T>
struct Codec;

template <>
struct Codec<bool> {
  static constexpr OptionType kType = OptionType::Boolean;
  static constexpr double scale(std::string_view) { return 1.0; }
  static bool read(const Value& v, double) { return std::get<bool>(v); }
  static Value write(bool v, double) { return v; }
};

template <>
struct Codec<std::string> {
  static constexpr OptionType kType = OptionType::Text;
  static constexpr double scale(std::string_view) { return 1.0; }
  static std::string read(const Value& v, double) { return std::get<std::string>(v); }
  static Value write(const std::string& v, double) { return v; }
};

template <>
struct Codec<double> {
  static constexpr OptionType kType = OptionType::Number;
  static constexpr double scale(std::string_view unit) { return factor_of(unit); }
  static double read(const Value& v, double scale) { return std::get<double>(v) * scale; }
  static Value write(double v, double scale) { return v / scale; }
};

template <typename Int>
struct IntegerCodec {
  static constexpr OptionType kType = OptionType::Integer;
  static constexpr double scale(std::string_view) { return 1.0; }
  static Int read(const Value& v, double) { return static_cast<Int>(std::get<std::int64_t>(v)); }
  static Value write(Int v, double) { return static_cast<std::int64_t>(v); }
};
template <>
struct Codec<std::int32_t> : IntegerCodec<std::int32_t> {};
template <>
struct Codec<std::int64_t> : IntegerCodec<std::int64_t> {};
template <>
struct Codec<std::uint64_t> : IntegerCodec<std::uint64_t> {};

template <typename Tag>
struct Codec<Quantity<Tag>> {
  static constexpr OptionType kType = OptionType::Number;
  static constexpr double scale(std::string_view) { return 1.0; }
  static Quantity<Tag> read(const Value& v, double) { return Quantity<Tag>(std::get<double>(v)); }
  static Value write(Quantity<Tag> v, double) { return v.value(); }
};

template <>
struct Codec<MegaHertz> {
  static constexpr OptionType kType = OptionType::Integer;
  static constexpr double scale(std::string_view) { return 1.0; }
  static MegaHertz read(const Value& v, double) {
    return MegaHertz(static_cast<std::int32_t>(std::get<std::int64_t>(v)));
  }
  static Value write(MegaHertz v, double) { return std::int64_t{v.value()}; }
};

template <>
struct Codec<std::vector<MegaHertz>> {
  static constexpr OptionType kType = OptionType::Integers;
  static constexpr double scale(std::string_view) { return 1.0; }
  static std::vector<MegaHertz> read(const Value& v, double) {
    std::vector<MegaHertz> clocks;
    for (const std::int64_t mhz : std::get<std::vector<std::int64_t>>(v)) {
      clocks.emplace_back(static_cast<std::int32_t>(mhz));
    }
    return clocks;
  }
  static Value write(const std::vector<MegaHertz>& clocks, double) {
    std::vector<std::int64_t> list;
    for (const MegaHertz clock : clocks) list.push_back(clock.value());
    return list;
  }
};

template <>
struct Codec<std::vector<std::int32_t>> {
  static constexpr OptionType kType = OptionType::Integers;
  static constexpr double scale(std::string_view) { return 1.0; }
  static std::vector<std::int32_t> read(const Value& v, double) {
    const auto& list = std::get<std::vector<std::int64_t>>(v);
    return {list.begin(), list.end()};
  }
  static Value write(const std::vector<std::int32_t>& list, double) {
    return std::vector<std::int64_t>(list.begin(), list.end());
  }
};

/// Span::max() is "no limit" and reads as absent.
template <>
struct Codec<Span> {
  static constexpr OptionType kType = OptionType::Number;
  static constexpr double scale(std::string_view unit) { return nanoseconds_of(unit); }
  static Span read(const Value& v, double scale) { return Span(std::llround(std::get<double>(v) * scale)); }
  static Value write(Span v, double scale) {
    if (v == Span::max()) return std::monostate{};
    return static_cast<double>(v.ns()) / scale;
  }
};

template <typename T>
struct Codec<std::optional<T>> {
  static constexpr OptionType kType = Codec<T>::kType;
  static constexpr double scale(std::string_view unit) { return Codec<T>::scale(unit); }
  static std::optional<T> read(const Value& v, double scale) { return Codec<T>::read(v, scale); }
  static Value write(const std::optional<T>& v, double scale) {
    return v ? Codec<T>::write(*v, scale) : Value(std::monostate{});
  }
};

/// Base for enumerations: Codec<E> derives from it and adds `names()`, a range of (text, value).
template <typename E, typename Derived>
struct NamedCodec {
  static constexpr OptionType kType = OptionType::Choice;
  static constexpr double scale(std::string_view) { return 1.0; }
  static E read(const Value& v, double) {
    const std::string& text = std::get<std::string>(v);
    for (const auto& [name, value] : Derived::names()) {
      if (name == text) return value;
    }
    return E{};
  }
  static Value write(E v, double) {
    for (const auto& [name, value] : Derived::names()) {
      if (value == v) return std::string(name);
    }
    return std::monostate{};
  }
};

}  // namespace wattle::config
