#pragma once
// How a struct member reads from and writes to a text-edge value: the only place where units turn into numbers.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/clock_setting.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::config {

/// A value at the text edge; monostate means absent.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                           std::vector<std::string>>;

enum class OptionType : std::uint8_t { Boolean, Integer, Number, Text, Choice, Integers, Texts, Clock, Clocks };

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

/// "max", "min", "sweet", on the way from that to max as "sweet+25%", a share of max as "0.7x", or whole MHz; none: it
/// is none of these.
[[nodiscard]] std::optional<ClockSetting> clock_from(std::string_view text);
[[nodiscard]] std::string clock_text(const ClockSetting& clock);

template <>
struct Codec<ClockSetting> {
  static constexpr OptionType kType = OptionType::Clock;
  static constexpr double scale(std::string_view) { return 1.0; }
  static ClockSetting read(const Value& v, double) {
    return clock_from(std::get<std::string>(v)).value_or(MegaHertz{0});
  }
  static Value write(const ClockSetting& v, double) { return clock_text(v); }
};

template <>
struct Codec<std::vector<ClockSetting>> {
  static constexpr OptionType kType = OptionType::Clocks;
  static constexpr double scale(std::string_view) { return 1.0; }
  static std::vector<ClockSetting> read(const Value& v, double) {
    std::vector<ClockSetting> clocks;
    for (const std::string& text : std::get<std::vector<std::string>>(v)) {
      clocks.push_back(clock_from(text).value_or(MegaHertz{0}));
    }
    return clocks;
  }
  static Value write(const std::vector<ClockSetting>& clocks, double) {
    std::vector<std::string> list;
    for (const ClockSetting& clock : clocks) list.push_back(clock_text(clock));
    return list;
  }
};

template <>
struct Codec<std::vector<std::string>> {
  static constexpr OptionType kType = OptionType::Texts;
  static constexpr double scale(std::string_view) { return 1.0; }
  static std::vector<std::string> read(const Value& v, double) { return std::get<std::vector<std::string>>(v); }
  static Value write(const std::vector<std::string>& list, double) { return list; }
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
  static Span read(const Value& v, double scale) {
    if (std::holds_alternative<std::monostate>(v)) return Span::max();
    return Span::nearest(std::get<double>(v) * scale);
  }
  static Value write(Span v, double scale) {
    if (v == Span::max()) return std::monostate{};
    return static_cast<double>(v.ns()) / scale;
  }
};

template <typename T>
struct Codec<std::optional<T>> {
  static constexpr OptionType kType = Codec<T>::kType;
  static constexpr auto names() requires requires { Codec<T>::names(); }
  { return Codec<T>::names(); }
  static constexpr double scale(std::string_view unit) { return Codec<T>::scale(unit); }
  static std::optional<T> read(const Value& v, double scale) {
    if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
    return Codec<T>::read(v, scale);
  }
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
