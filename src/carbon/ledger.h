#pragma once
// The one ledger: energy is integrated here, once, from power; carbon is that energy times intensity; cost likewise.
// Nothing else in the tree computes joules or grams (law 3).
//
// All sums are integers (energy in pJ = mW x ns; carbon in pJ x ug/kWh), and an interval is closed only when power,
// work or intensity changes. So totals do not depend on how often a driver calls, and parts sum to the whole exactly:
//   total = sum over requests (prefill + decode) + idle + residue, per instance and over the fleet (INV-5).
#include <cstdint>
#include <span>
#include <vector>

#include "base/wide.h"
#include "carbon/intensity.h"
#include "units/quantity.h"

namespace wattle::carbon {

/// Carbon before its last division: pJ x ug/kWh. Exact.
struct CarbonUnits {
  Int128 value = 0;
  constexpr CarbonUnits& operator+=(CarbonUnits o) { return value += o.value, *this; }
  constexpr CarbonUnits operator-(CarbonUnits o) const { return {value - o.value}; }
  constexpr CarbonUnits operator+(CarbonUnits o) const { return {value + o.value}; }
  constexpr bool operator==(const CarbonUnits&) const = default;
  /// 1 pJ = 1e-12 J, 1 kWh = 3.6e6 J, 1 ug = 1e-6 g.
  [[nodiscard]] constexpr GramsCo2 grams() const { return GramsCo2(static_cast<double>(value) / 3.6e24); }
};

/// Energy with the carbon it caused.
struct Booking {
  Picojoules energy;
  CarbonUnits carbon;
  constexpr Booking& operator+=(const Booking& o) { return energy += o.energy, carbon += o.carbon, *this; }
  constexpr Booking operator-(const Booking& o) const { return {energy - o.energy, carbon - o.carbon}; }
  constexpr Booking operator+(const Booking& o) const { return {energy + o.energy, carbon + o.carbon}; }
  constexpr bool operator==(const Booking&) const = default;
};

/// What one request has been booked; lives with the driver's record of the request.
struct Account {
  Booking prefill;
  Booking decode;
  Booking mark;  ///< the instance's decode share when the request joined
  [[nodiscard]] Booking total() const { return prefill + decode; }
};

/// Where an instance's (or the fleet's) energy went.
struct Totals {
  Booking total;
  Booking prefill;  ///< booked to requests for prompt tokens
  Booking decode;   ///< booked to requests for output tokens
  Booking idle;     ///< no work on the instance
  Booking residue;  ///< picojoules that do not divide evenly, and prefill work nobody was left to pay for
};

class Ledger {
 public:
  Ledger(std::size_t instances, const IntensitySeries& intensity);

  /// One more instance, with the next id; it has drawn nothing before `since`.
  void add_instance(Instant since);

  /// From `at` on the instance draws `power` for this much work. Energy of a mixed step is split by tokens: one per
  /// decoding request, prefill_tokens for the prompts. Calls come in time order per instance.
  void power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                     std::int64_t prefill_tokens);
  /// Membership of the decode set, which shares decode energy equally.
  void decode_joined(InstanceId instance, Account& account, Instant at);
  void decode_left(InstanceId instance, Account& account, Instant at);

  /// Ends a stretch of prefill work: what prefill cost since the last settlement goes to the accounts, by tokens.
  struct Share {
    Account* account;
    std::int64_t tokens;
  };
  void settle_prefill(InstanceId instance, Instant at, std::span<const Share> shares);

  /// Bring every instance's integral up to `at`.
  void close(Instant at);

  [[nodiscard]] const Totals& totals(InstanceId instance) const { return meters_[index(instance)].totals; }
  [[nodiscard]] Totals fleet() const;
  [[nodiscard]] Milliwatts power(InstanceId instance) const { return meters_[index(instance)].power; }

 private:
  struct Meter {
    Milliwatts power;
    std::int32_t decode_requests = 0;
    std::int64_t prefill_tokens = 0;
    Instant since;
    Booking decode_share;  ///< cumulative, per decoding request
    Booking open_prefill;  ///< not yet settled
    Totals totals;
  };
  [[nodiscard]] static std::size_t index(InstanceId id) { return static_cast<std::size_t>(id.value()); }
  void close(Meter& meter, Instant at);
  static void book(Meter& meter, Span span, std::int64_t micrograms_per_kwh);

  std::vector<Meter> meters_;
  const IntensitySeries& intensity_;
};

}  // namespace wattle::carbon
