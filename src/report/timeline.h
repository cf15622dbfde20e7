#pragma once
// A run's samples, averaged into a bounded number of equal intervals.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/histogram.h"
#include "journal/record.h"

namespace wattle::report {

/// W, MHz, decode requests, prompt tokens in the step, waiting requests.
enum class Signal : std::uint8_t { Power, Clock, Batch, Prefill, Waiting };
inline constexpr std::size_t kSignals = 5;

/// Mean of a signal per interval; NaN where nothing was sampled.
using Series = std::vector<double>;

/// Grows in time, not in memory: when the intervals run out they are merged in pairs.
class Timeline {
 public:
  explicit Timeline(std::size_t max_intervals) : max_intervals_(max_intervals) {}

  /// Samples in any order, time >= 0.
  void add(const journal::Sample& sample);
  /// After the last sample: intervals become no shorter than the median time between an instance's samples, else most
  /// would hold none. One without a sample between two that have some is a late sample and holds what the first does.
  void settle();

  [[nodiscard]] double interval_s() const { return static_cast<double>(interval_ns_) * 1e-9; }
  /// The newest sample's time, and the median time between an instance's samples; 0: there are too few.
  [[nodiscard]] double end_s() const;
  [[nodiscard]] double sample_period_s() const { return static_cast<double>(gaps_.quantile(0.5)) * 1e-9; }
  [[nodiscard]] std::size_t intervals() const { return intervals_; }
  [[nodiscard]] std::vector<InstanceId> instances() const;
  [[nodiscard]] Series series(InstanceId instance, Signal signal) const;
  /// Over the fleet: the sum of the instances' means (clock: their mean).
  [[nodiscard]] Series fleet(Signal signal) const;

 private:
  struct Cell {
    std::int64_t samples = 0;
    double sum[kSignals] = {};
  };

  /// An instance's intervals.
  struct Track {
    std::vector<Cell> cells;
    Instant newest;
  };

  void merge_pairs();

  std::size_t max_intervals_;
  std::int64_t interval_ns_ = 100'000'000;
  std::size_t intervals_ = 0;
  std::map<std::int32_t, Track> tracks_;
  Histogram gaps_;  ///< ns between an instance's samples
};

/// Reads a run's timeseries.csv.
[[nodiscard]] Result<Timeline> read_timeline(const std::string& path, std::size_t max_intervals, bool ended = true);

}  // namespace wattle::report
