#pragma once
// Physical quantities as distinct types: W + J or MHz for W does not compile (tests/arch proves it).
#include <compare>
#include <cstdint>

#include "base/wide.h"
#include "units/time.h"

namespace wattle {

/// A double with a dimension. Same-tag arithmetic only; the few meaningful products are named below.
template <typename Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value_(v) {}
  [[nodiscard]] constexpr double value() const { return value_; }
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity o) const { return Quantity(value_ + o.value_); }
  constexpr Quantity operator-(Quantity o) const { return Quantity(value_ - o.value_); }
  constexpr Quantity operator*(double k) const { return Quantity(value_ * k); }
  constexpr Quantity operator/(double k) const { return Quantity(value_ / k); }
  constexpr double operator/(Quantity o) const { return value_ / o.value_; }
  constexpr Quantity& operator+=(Quantity o) { return value_ += o.value_, *this; }

 private:
  double value_ = 0.0;
};

using Watts = Quantity<struct WattsTag>;
using Joules = Quantity<struct JoulesTag>;
using GramsCo2 = Quantity<struct GramsCo2Tag>;
using GramsPerKwh = Quantity<struct GramsPerKwhTag>;           ///< carbon intensity, gCO2eq/kWh
inline constexpr double kGramsPerKwhInLbsPerMwh = 0.45359237;  ///< 453.59237 g a pound, 1000 kWh a MWh
using Usd = Quantity<struct UsdTag>;
using UsdPerMwh = Quantity<struct UsdPerMwhTag>;  ///< price of electricity
using UsdPerHour = Quantity<struct UsdPerHourTag>;

/// An integer with a dimension or an identity.
template <typename Tag, typename Int>
class Count {
 public:
  constexpr Count() = default;
  constexpr explicit Count(Int v) : value_(v) {}
  [[nodiscard]] constexpr Int value() const { return value_; }
  constexpr auto operator<=>(const Count&) const = default;

 private:
  Int value_ = 0;
};

/// SM clock, whole MHz (data-centre GPUs step by 15).
using MegaHertz = Count<struct MegaHertzTag, std::int32_t>;
/// Power on the meter, whole milliwatts: NVML's own unit, and what makes energy sums exact.
using Milliwatts = Count<struct MilliwattsTag, std::int64_t>;
using RequestId = Count<struct RequestIdTag, std::int64_t>;
using InstanceId = Count<struct InstanceIdTag, std::int32_t>;
using TenantId = Count<struct TenantIdTag, std::int32_t>;
using ClassId = Count<struct ClassIdTag, std::int32_t>;
using TierId = Count<struct TierIdTag, std::int32_t>;
using SiteId = Count<struct SiteIdTag, std::int32_t>;
using NodeId = Count<struct NodeIdTag, std::int32_t>;
using PoolId = Count<struct PoolIdTag, std::int32_t>;

inline constexpr InstanceId kNoInstance{-1};

[[nodiscard]] constexpr Watts to_watts(Milliwatts p) { return Watts(static_cast<double>(p.value()) * 1e-3); }
[[nodiscard]] constexpr Milliwatts to_milliwatts(Watts p) {
  return Milliwatts(static_cast<std::int64_t>(p.value() * 1e3 + (p.value() < 0.0 ? -0.5 : 0.5)));
}

/// Exact energy: 1 mW x 1 ns = 1 pJ. Integer, so sums do not depend on the order or number of additions.
class Picojoules {
 public:
  constexpr Picojoules() = default;
  constexpr explicit Picojoules(Int128 v) : value_(v) {}
  [[nodiscard]] constexpr Int128 value() const { return value_; }
  constexpr auto operator<=>(const Picojoules&) const = default;
  constexpr Picojoules operator+(Picojoules o) const { return Picojoules(value_ + o.value_); }
  constexpr Picojoules operator-(Picojoules o) const { return Picojoules(value_ - o.value_); }
  constexpr Picojoules operator*(std::int64_t k) const { return Picojoules(value_ * k); }
  constexpr Picojoules operator/(std::int64_t k) const { return Picojoules(value_ / k); }
  constexpr Picojoules& operator+=(Picojoules o) { return value_ += o.value_, *this; }
  constexpr Picojoules& operator-=(Picojoules o) { return value_ -= o.value_, *this; }
  [[nodiscard]] constexpr Joules joules() const { return Joules(static_cast<double>(value_) * 1e-12); }

 private:
  Int128 value_ = 0;
};

/// Power held over a span. Only the ledger (carbon/) calls this; see law 3.
[[nodiscard]] constexpr Picojoules energy_over(Milliwatts p, Span d) { return Picojoules(Int128{p.value()} * d.ns()); }

}  // namespace wattle
