#pragma once
// Instant and Span: 64-bit integer nanoseconds, distinct types. Doubles appear only at text edges.
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace wattle {

/// A length of time, ns. Addition saturates nowhere on purpose: 292 years fit.
class Span {
 public:
  constexpr Span() = default;
  constexpr explicit Span(std::int64_t ns) : ns_(ns) {}
  [[nodiscard]] static constexpr Span ns(std::int64_t v) { return Span(v); }
  [[nodiscard]] static constexpr Span us(std::int64_t v) { return Span(v * 1'000); }
  [[nodiscard]] static constexpr Span ms(std::int64_t v) { return Span(v * 1'000'000); }
  [[nodiscard]] static constexpr Span s(std::int64_t v) { return Span(v * 1'000'000'000); }
  /// Nearest whole nanosecond. Beyond the range its end; not a number, which text edges refuse, is 0.
  [[nodiscard]] static Span nearest(double ns) {
    constexpr double kEnd = 9223372036854775808.0;  // 2^63
    if (std::isnan(ns)) return {};
    if (ns >= kEnd) return max();
    return ns <= -kEnd ? Span(std::numeric_limits<std::int64_t>::min()) : Span(std::llround(ns));
  }
  /// Nearest nanosecond to a number of seconds (text edge).
  [[nodiscard]] static Span from_seconds(double v) { return nearest(v * 1e9); }
  [[nodiscard]] static constexpr Span max() { return Span(std::numeric_limits<std::int64_t>::max()); }

  [[nodiscard]] constexpr std::int64_t ns() const { return ns_; }
  [[nodiscard]] constexpr double seconds() const { return static_cast<double>(ns_) * 1e-9; }
  [[nodiscard]] constexpr double millis() const { return static_cast<double>(ns_) * 1e-6; }

  constexpr auto operator<=>(const Span&) const = default;
  constexpr Span operator+(Span o) const { return Span(ns_ + o.ns_); }
  constexpr Span operator-(Span o) const { return Span(ns_ - o.ns_); }
  constexpr Span operator-() const { return Span(-ns_); }
  constexpr Span operator*(std::int64_t k) const { return Span(ns_ * k); }
  constexpr Span operator/(std::int64_t k) const { return Span(ns_ / k); }
  constexpr Span& operator+=(Span o) { return ns_ += o.ns_, *this; }
  constexpr Span& operator-=(Span o) { return ns_ -= o.ns_, *this; }

 private:
  std::int64_t ns_ = 0;
};

/// A point in time, ns since the run's (or process's) origin.
class Instant {
 public:
  constexpr Instant() = default;
  constexpr explicit Instant(std::int64_t ns) : ns_(ns) {}
  [[nodiscard]] static constexpr Instant never() { return Instant(std::numeric_limits<std::int64_t>::max()); }

  [[nodiscard]] constexpr std::int64_t ns() const { return ns_; }
  [[nodiscard]] constexpr double seconds() const { return static_cast<double>(ns_) * 1e-9; }

  constexpr auto operator<=>(const Instant&) const = default;
  /// Saturating: never() + anything stays never(), and what would lie beyond the range is its end.
  constexpr Instant operator+(Span d) const {
    if (*this == never()) return never();
    std::int64_t sum = 0;
    if (!__builtin_add_overflow(ns_, d.ns(), &sum)) return Instant(sum);
    return d.ns() > 0 ? never() : Instant(std::numeric_limits<std::int64_t>::min());
  }
  constexpr Instant operator-(Span d) const {
    if (*this == never()) return never();
    std::int64_t difference = 0;
    if (!__builtin_sub_overflow(ns_, d.ns(), &difference)) return Instant(difference);
    return d.ns() < 0 ? never() : Instant(std::numeric_limits<std::int64_t>::min());
  }
  constexpr Span operator-(Instant o) const { return Span(ns_ - o.ns_); }
  constexpr Instant& operator+=(Span d) { return *this = *this + d; }

 private:
  std::int64_t ns_ = 0;
};

}  // namespace wattle
