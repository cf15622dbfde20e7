#pragma once
// The one ledger: energy is integrated here, once, from power; carbon is that energy times intensity; cost is that
// energy times the price of electricity, plus the time of the GPUs times theirs. Nothing else in the tree computes
// joules, grams or dollars (law 3).
//
// All sums are integers (energy in pJ = mW x ns; carbon in pJ x ug/kWh; GPU time in ns; cost in pJ x uUSD/MWh), and an
// interval is closed only when power, work or a site's rates change. So totals do not depend on how often a driver
// calls, and parts sum to the whole exactly (INV-5):
//   total = prefill + decode + idle + residue, per instance, site and over the fleet;
//   prefill + decode = sum over requests = sum over models and tenants = sum over models and classes.
// Power that nobody measured is unknown, not zero: such time is counted, and a request that was served then is marked.
// So is one that drew energy while its site's intensity or price was unknown: its carbon or cost is no number. Sums
// take the last known value for it, and say of how much energy.
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/wide.h"
#include "carbon/series.h"
#include "model/instance_index.h"
#include "model/outcome.h"
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

/// Cost before its last division: pJ x uUSD/MWh, which is also 1e-9 x ns x uUSD/h. Exact.
struct CostUnits {
  Int128 value = 0;
  constexpr CostUnits& operator+=(CostUnits o) { return value += o.value, *this; }
  constexpr CostUnits operator-(CostUnits o) const { return {value - o.value}; }
  constexpr CostUnits operator+(CostUnits o) const { return {value + o.value}; }
  constexpr bool operator==(const CostUnits&) const = default;
  /// 1 pJ = 1e-12 J, 1 MWh = 3.6e9 J, 1 uUSD = 1e-6 USD.
  [[nodiscard]] constexpr Usd usd() const { return Usd(static_cast<double>(value) / 3.6e27); }
};
inline constexpr std::int64_t kCostUnitsPerGpuPrice = 1'000'000'000;  ///< for 1 ns at 1 uUSD/h

/// What a site's electricity emits and costs, and what an hour of one of its GPUs does.
struct SiteRates {
  std::string name;
  IntensitySeries intensity = IntensitySeries::constant(GramsPerKwh(400.0));
  PriceSeries electricity = PriceSeries::constant(UsdPerMwh(0.0));  ///< 0: within the GPUs' price
  UsdPerHour gpu_price;                                             ///< 0: not stated
  /// What those who decide go by, a marginal intensity as a rule; none: as the books. The ledger never asks it.
  std::optional<IntensitySeries> decisions = std::nullopt;
  bool by_time_of_day = false;    ///< its series are looked up at the time of day, which may be set during the run
  std::string books_by = {};      ///< what `intensity` is, for people: "average, electricity-maps DE"
  std::string decisions_by = {};  ///< likewise
  [[nodiscard]] const IntensitySeries& deciding() const { return decisions ? *decisions : intensity; }

  /// As it is booked: at a price in whole millionths.
  [[nodiscard]] CostUnits gpu_cost(Span gpu_time) const;
  /// Some price is stated; else what it costs is unknown.
  [[nodiscard]] bool priced() const { return gpu_price != UsdPerHour() || pays_for_energy(); }
  /// False: what it costs is known without its energy.
  [[nodiscard]] bool pays_for_energy() const {
    return !electricity.constant() || electricity.at(Instant()) != UsdPerMwh(0.0);
  }
};

/// Energy and GPU time, with what they caused.
struct Booking {
  Picojoules energy;
  CarbonUnits carbon;
  Span gpu_time;  ///< of all GPUs together
  CostUnits cost;
  constexpr Booking& operator+=(const Booking& o) {
    return energy += o.energy, carbon += o.carbon, gpu_time = gpu_time + o.gpu_time, cost += o.cost, *this;
  }
  constexpr Booking operator-(const Booking& o) const {
    return {energy - o.energy, carbon - o.carbon, gpu_time - o.gpu_time, cost - o.cost};
  }
  constexpr Booking operator+(const Booking& o) const { return Booking(*this) += o; }
  constexpr bool operator==(const Booking&) const = default;
};

/// What was not known of some of it.
struct Unknown {
  bool power = false;      ///< nobody measured
  bool intensity = false;  ///< of energy that it drew
  bool price = false;      ///< likewise
  constexpr Unknown& operator|=(const Unknown& o) {
    power = power || o.power;
    intensity = intensity || o.intensity;
    price = price || o.price;
    return *this;
  }
};

/// For how long each was not known of an instance.
struct UnknownTime {
  Span power;
  Span intensity;
  Span price;
  void add(const Unknown& unknown, Span span) {
    if (unknown.power) power = power + span;
    if (unknown.intensity) intensity = intensity + span;
    if (unknown.price) price = price + span;
  }
  /// What of it has grown since.
  [[nodiscard]] Unknown since(const UnknownTime& then) const {
    return {power != then.power, intensity != then.intensity, price != then.price};
  }
};

/// What one request has been booked; lives with the driver's record of the request.
struct Account {
  Booking prefill;
  Booking decode;
  Booking joined_at;       ///< the instance's decode share when the request joined
  UnknownTime unknown_at;  ///< the instance's then
  Unknown unknown;
  [[nodiscard]] Booking total() const { return prefill + decode; }
  [[nodiscard]] Charge charge() const {
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    const Booking all = total();
    return {all.energy, unknown.intensity ? GramsCo2(kUnknown) : all.carbon.grams(),
            unknown.price ? Usd(kUnknown) : all.cost.usd(), !unknown.power};
  }
};

/// Where an instance's (or a site's, or the fleet's) energy went.
struct Totals {
  Booking total;
  Booking prefill;       ///< booked to requests for prompt tokens
  Booking decode;        ///< booked to requests for output tokens
  Booking idle;          ///< no work on the instance
  Booking residue;       ///< what does not divide evenly, and prefill work nobody was left to pay for
  Picojoules idle_tail;  ///< of idle: since the instance last had work
  /// Of total: at times for which the site's intensity is unknown. Its carbon is booked by the last value that was
  /// known (before any: by what the site states), never as zero.
  Picojoules unknown_carbon;
  Picojoules unknown_price;  ///< likewise of the price of electricity, and what it cost
  Span metered;              ///< instance time at a known power
  Span unmetered;            ///< instance time without
  Totals& operator+=(const Totals& o);
};

/// A model that clients ask for, where a fleet serves several by name; 0 where it serves one.
using ModelId = Count<struct ModelIdTag, std::int32_t>;

/// Those of an instance.
struct InstanceTotals {
  InstanceId id;
  SiteId site;
  Totals totals;
};

/// What the requests of one tenant or class, or all, have used.
struct Usage {
  Usage& operator+=(const Usage& o) {
    requests += o.requests;
    unmetered_requests += o.unmetered_requests;
    unknown_carbon_requests += o.unknown_carbon_requests;
    unknown_price_requests += o.unknown_price_requests;
    prompt_tokens += o.prompt_tokens;
    output_tokens += o.output_tokens;
    booked += o.booked;
    return *this;
  }
  std::int64_t requests = 0;
  std::int64_t unmetered_requests = 0;  ///< of these: with energy that nobody measured, which is not in `booked`
  /// Of these: with energy at an unknown intensity, or price; in `booked` at the last known one.
  std::int64_t unknown_carbon_requests = 0;
  std::int64_t unknown_price_requests = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t output_tokens = 0;
  Booking booked;
};

/// `drawn`, and what a fleet draws at `idle` for so long after it.
[[nodiscard]] inline Joules with_idle_after(Joules drawn, Watts idle, Span after) {
  return drawn + energy_over(to_milliwatts(idle), after).joules();
}

class Ledger {
 public:
  /// At least one site; a ledger has room for 32768 tenants' and classes' usage and adds further ones up as id -1.
  explicit Ledger(std::vector<SiteRates> sites);

  /// The next instance, with the next id, which counts up and never comes back; it has drawn nothing and taken no GPU
  /// before `since`.
  void add_instance(Instant since, std::int32_t gpus, SiteId site = SiteId{0});
  /// It has so many GPUs of its own from now on.
  void set_gpus(InstanceId instance, std::int32_t gpus, Instant at);
  /// From now on so many of the site's GPUs are paid for while no instance has them, and draw `power` together; idle
  /// energy of the site and the fleet, of no instance.
  void spare_gpus(SiteId site, std::int32_t gpus, Milliwatts power, Instant at);
  /// From the newest booking of each of the site's instances on, its intensity is this one's.
  void set_intensity(SiteId site, IntensitySeries intensity);
  /// The time of day was set, in all by `ahead` since the series were made: from the newest booking of each instance
  /// on, those that go by it are looked up there.
  void time_of_day_is(Span ahead);
  /// Its GPUs are somebody else's from now on, and no call may name it any more but totals(). Its power must be 0, or
  /// unknown.
  void instance_gone(InstanceId instance, Instant at);

  /// From `at` on the instance draws `power` for this much work. Energy of a mixed step is split by tokens: one per
  /// decoding request, prefill_tokens for the prompts. Calls come in time order per instance.
  void power_changes(InstanceId instance, Instant at, Milliwatts power, std::int32_t decode_requests,
                     std::int64_t prefill_tokens) {
    changes(meter_of(instance), at, power, true, decode_requests, prefill_tokens);
  }
  /// The same where nobody measures what it draws.
  void power_unknown(InstanceId instance, Instant at, std::int32_t decode_requests, std::int64_t prefill_tokens) {
    changes(meter_of(instance), at, Milliwatts(0), false, decode_requests, prefill_tokens);
  }
  /// Membership of the decode set, which shares decode energy equally.
  void decode_joined(InstanceId instance, Account& account, Instant at);
  void decode_left(InstanceId instance, Account& account, Instant at);

  /// Ends a stretch of prefill work: what prefill cost since the last settlement goes to the accounts, by tokens.
  struct Share {
    Account* account;
    std::int64_t tokens;
  };
  void settle_prefill(InstanceId instance, Instant at, std::span<const Share> shares);

  /// The request has left: what it used, which is booked to its tenant and its class, each by the model asked for.
  [[nodiscard]] Charge request_left(const Request& request, std::int32_t output_tokens, const Account& account,
                                    ModelId model = {});

  /// Bring every instance's integral, or one's, up to `at`.
  void close(Instant at);
  void close(InstanceId instance, Instant at) { close(meter_of(instance), at); }

  /// Of one that has been gone for long: nothing.
  [[nodiscard]] Totals totals(InstanceId instance) const;
  /// Of those that are there and the newest that are gone, ascending by id.
  [[nodiscard]] std::vector<InstanceTotals> by_instance() const;
  /// Of all others, and how many they are.
  [[nodiscard]] const Totals& others() const { return others_; }
  [[nodiscard]] std::int64_t other_instances() const { return other_instances_; }
  [[nodiscard]] Totals site(SiteId site) const;
  /// Of all sites' spare GPUs.
  [[nodiscard]] Totals spare() const;
  [[nodiscard]] Totals fleet() const;
  [[nodiscard]] Milliwatts power(InstanceId instance) const { return meter_of(instance).power; }
  /// What instances without work, and spare GPUs, draw now.
  [[nodiscard]] Milliwatts idle_power() const;
  /// Drawn up to `at`, which is not before the instance's last call. Closes nothing.
  [[nodiscard]] Picojoules energy_until(InstanceId instance, Instant at) const;
  /// That are there.
  [[nodiscard]] std::size_t instances() const { return meters_.size(); }
  [[nodiscard]] const std::vector<SiteRates>& sites() const { return sites_; }
  /// What a site's energy is booked at; none: its intensity is unknown.
  [[nodiscard]] std::optional<GramsPerKwh> intensity(SiteId site, Instant at) const;
  [[nodiscard]] const Usage& usage() const { return usage_; }
  /// Over all models, and of one.
  [[nodiscard]] std::map<TenantId, Usage> by_tenant() const { return summed(tenants_); }
  [[nodiscard]] std::map<ClassId, Usage> by_class() const { return summed(classes_); }
  [[nodiscard]] std::map<TenantId, Usage> by_tenant(ModelId model) const { return of(tenants_, model); }
  [[nodiscard]] std::map<ClassId, Usage> by_class(ModelId model) const { return of(classes_, model); }
  [[nodiscard]] Usage usage(ModelId model) const;

 private:
  /// A site's rates as integers, and how long they hold.
  struct Rates {
    std::int64_t micrograms_per_kwh = 0;
    std::int64_t microusd_per_mwh = 0;
    std::int64_t microusd_per_gpu_h = 0;
    Instant until;
    bool intensity_known = true;
    bool price_known = true;
  };
  struct Meter {
    Milliwatts power;
    bool metered = true;
    std::int32_t gpus = 1;
    std::int32_t decode_requests = 0;
    std::int64_t prefill_tokens = 0;
    SiteId site;
    Instant since;
    Rates rates;
    Booking decode_share;  ///< cumulative, per decoding request
    Booking open_prefill;  ///< not yet settled
    Unknown open_unknown;  ///< of open_prefill
    UnknownTime unknown;
    Totals totals;
  };
  [[nodiscard]] Meter& meter_of(InstanceId id) { return meters_[index_.at(id)]; }
  [[nodiscard]] const Meter& meter_of(InstanceId id) const { return meters_[index_.at(id)]; }
  void changes(Meter& meter, Instant at, Milliwatts power, bool metered, std::int32_t decode_requests,
               std::int64_t prefill_tokens);
  void close(Meter& meter, Instant at);
  [[nodiscard]] Rates rates_at(SiteId site, Instant at) const;
  void look_up_again();
  static void book(Meter& meter, Span span);

  std::vector<SiteRates> sites_;
  Span ahead_;  ///< of the time of day
  InstanceIndex index_;
  std::vector<Meter> meters_;
  std::vector<Meter> spare_;      ///< of sites that have said something of theirs
  std::vector<Totals> departed_;  ///< by site: of all instances that are gone
  std::deque<InstanceTotals> newest_gone_;
  Totals others_;  ///< of those gone before
  std::int64_t other_instances_ = 0;
  Usage usage_;
  template <typename Id>
  using Rows = std::map<std::pair<ModelId, Id>, Usage>;
  template <typename Id>
  static std::map<Id, Usage> summed(const Rows<Id>& rows) {
    std::map<Id, Usage> sums;
    for (const auto& [key, usage] : rows) sums[key.second] += usage;
    return sums;
  }
  template <typename Id>
  static std::map<Id, Usage> of(const Rows<Id>& rows, ModelId model) {
    std::map<Id, Usage> some;
    for (const auto& [key, usage] : rows) {
      if (key.first == model) some[key.second] = usage;
    }
    return some;
  }
  Rows<TenantId> tenants_;
  Rows<ClassId> classes_;
};

}  // namespace wattle::carbon
