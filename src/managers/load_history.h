#pragma once
// The load of each class so far, and the peak expected of the next while (DynamoLLM: load templates of a week).
#include <cstddef>
#include <span>
#include <vector>

#include "units/time.h"

namespace wattle::managers {

struct LoadForecastOptions {
  Span slot = Span::s(300);        ///< the history keeps the highest rate of each
  Span season = Span::s(604'800);  ///< of the template
  double quantile = 0.9;           ///< of a slot's values over the seasons
  double headroom = 0.0;           ///< share added to what is expected
};

class LoadHistory {
 public:
  LoadHistory(std::size_t classes, const LoadForecastOptions& options);

  /// What was seen before the run, by class and slot; its last slot ends where the run begins. Also what is expected
  /// as long as the run has seen nothing.
  void begin_with(std::vector<std::vector<double>> past);
  /// Requests per second by class over a while that ends now. Classes that are missing had none.
  void add(std::span<const double> rate_per_s, Instant now);

  /// The highest rate of each class expected within [from, until): the template's where at least one whole season is
  /// known, else the highest of as long a while just past (never of a slot alone that still runs). Zeros where nothing
  /// is known.
  [[nodiscard]] std::vector<double> peak(Instant from, Instant until) const;
  /// The highest rate of each class in the slot that runs and the one before.
  [[nodiscard]] std::vector<double> present() const;

 private:
  [[nodiscard]] std::int64_t slot_of(Instant at) const { return at.ns() / options_.slot.ns(); }

  LoadForecastOptions options_;
  std::vector<std::vector<double>> slots_;  ///< by class; NaN: nothing seen
  std::int64_t first_ = 0;                  ///< slot of the first entry
  Instant seen_;                            ///< until then
};

}  // namespace wattle::managers
