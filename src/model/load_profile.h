#pragma once
// Measured power and latency of an instance under steady load: the basis of plans and of routing by energy.
#include <cmath>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

/// The whole instance at one steady load.
struct LoadPoint {
  Watts power;
  Span ttft;  ///< at the profile's quantile
  Span tbt;
};

/// The profile of one kind of instance (GPU, model, tensor parallelism). Never throws; interpolates between measured
/// points. Loads are requests per second of one class.
class LoadProfile {
 public:
  virtual ~LoadProfile() = default;
  /// The largest load of this class that it carries within the objectives at this clock; 0: none.
  [[nodiscard]] virtual double max_load_per_s(ClassId request_class, MegaHertz clock) const = 0;
  /// Power and latency at such a load; beyond the maximum as far as measured, else those at the maximum.
  [[nodiscard]] virtual LoadPoint at(ClassId request_class, double load_per_s, MegaHertz clock) const = 0;
  /// The lowest clock >= `least` at which it carries the load within the objectives; the highest known one if none
  /// does; `least` if no other is known.
  [[nodiscard]] virtual MegaHertz clock_for(ClassId /*request_class*/, double /*load_per_s*/, MegaHertz least) const {
    return least;
  }
};

/// An instance's recent load as a share of what it carries within its objectives: 1 is as much as it should have.
/// Requests are forgotten exponentially.
class LoadShare {
 public:
  static constexpr Span kMemory = Span::s(10);

  /// The share that one request counts for if the instance carries this load of its class.
  [[nodiscard]] static double of_one(double max_load_per_s) { return 1.0 / (max_load_per_s * kMemory.seconds()); }

  [[nodiscard]] double at(Instant now) const {
    return share_ == 0.0 ? 0.0 : share_ * std::exp(-(now - at_).seconds() / kMemory.seconds());
  }
  void add(double share, Instant now) {
    share_ = at(now) + share;
    at_ = now;
  }

 private:
  double share_ = 0.0;
  Instant at_;
};

}  // namespace wattle
