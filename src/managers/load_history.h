#pragma once
// The load of each class so far, and the expected peak of a coming interval (DynamoLLM: load templates of a week).
#include <cstddef>
#include <span>
#include <vector>

#include "units/time.h"

namespace wattle::managers {

struct LoadForecastOptions {
  Span slot = Span::s(300);        ///< the history stores the highest rate of each slot
  Span season = Span::s(604'800);  ///< period of the template
  double quantile = 0.9;           ///< of a slot's values over the seasons
  double headroom = 0.0;           ///< share added to the expected load
};

class LoadHistory {
 public:
  LoadHistory(std::size_t classes, const LoadForecastOptions& options);

  /// Load observed before the run, by class and slot; the last slot ends where the run begins. It is also the expected
  /// load until the run has seen any.
  void begin_with(std::vector<std::vector<double>> past);
  /// Requests per second by class over an interval that ends now. Missing classes had none.
  void add(std::span<const double> rate_per_s, Instant now);

  /// The highest rate of each class expected within [from, until), in requests per second: from the template if at
  /// least one whole season is known, otherwise the highest of the equally long interval just past (never only of the
  /// slot in progress). Zeros where nothing is known.
  [[nodiscard]] std::vector<double> peak(Instant from, Instant until) const;
  /// The highest rate of each class in the slot in progress and the one before.
  [[nodiscard]] std::vector<double> present() const;

 private:
  [[nodiscard]] std::int64_t slot_of(Instant at) const { return at.ns() / options_.slot.ns(); }

  LoadForecastOptions options_;
  std::vector<std::vector<double>> slots_;  ///< by class; NaN: nothing seen
  std::int64_t first_ = 0;                  ///< slot number of the first entry
  Instant seen_;                            ///< end of what has been seen
};

}  // namespace wattle::managers
