#pragma once
// What an instance does under a steady load, as it was measured: what plans and routing by energy rest on.
#include <cmath>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle {

/// Of the whole instance, steadily at one load.
struct LoadPoint {
  Watts power;
  Span ttft;  ///< at the profile's quantile
  Span tbt;
};

/// Of one kind of instance (GPU, model, tensor parallelism). Total: never throws; between what was measured it
/// interpolates. Loads are requests per second of one class.
class LoadProfile {
 public:
  virtual ~LoadProfile() = default;
  /// The most it carries of this class within its objectives at this clock; 0: it cannot serve the class so.
  [[nodiscard]] virtual double max_load_per_s(ClassId request_class, MegaHertz clock) const = 0;
  /// At such a load; beyond the maximum what the profile has to say, or the maximum's.
  [[nodiscard]] virtual LoadPoint at(ClassId request_class, double load_per_s, MegaHertz clock) const = 0;
  /// The lowest clock from this one on at which it carries the load within its objectives; the highest known where none
  /// does, this one where no other is known.
  [[nodiscard]] virtual MegaHertz clock_for(ClassId /*request_class*/, double /*load_per_s*/, MegaHertz least) const {
    return least;
  }
};

/// The share of what it carries within its objectives that an instance was given of late: 1 is as much as it should
/// have. A request is forgotten exponentially.
class LoadShare {
 public:
  static constexpr Span kMemory = Span::s(10);

  /// What one request of a class counts for where the instance carries so much of it.
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
