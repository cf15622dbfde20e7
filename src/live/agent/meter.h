#pragma once
// Energy of one GPU from a counter that moves in jumps and a power reading: exact over the long run, honest over a
// second.
//
// How accurate: the counter is refreshed every 20 to 100 ms, so reading it at the ends of a window of 1 s is off by up
// to 10 %. A jump is noticed by the sample after it, so it is known to lie between two samples; energy up to there is
// the counter's, energy since is integrated from power. With a sample every 5 ms, windows of 1 s and more are within
// 2 % (tests/agent/meter_test.cc, against the virtual GPU's ground truth).
//
// This measures what a device says it has drawn. Booking energy to requests is the ledger's business (law 3).
#include <cstdint>
#include <optional>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::live {

class EnergyMeter {
 public:
  /// `counter_mj` is absent where the device has none: then power alone is integrated. Samples in order of time.
  void sample(std::optional<std::uint64_t> counter_mj, Milliwatts power, Instant now);
  /// Since the first sample; never decreases.
  [[nodiscard]] Picojoules total() const { return reported_; }
  [[nodiscard]] Milliwatts power() const { return power_; }
  /// The counter went backwards and it was no 32-bit overflow: the driver was loaded anew.
  [[nodiscard]] std::int64_t resets() const { return resets_; }
  [[nodiscard]] std::int64_t wraps() const { return wraps_; }

 private:
  [[nodiscard]] Picojoules jump(std::uint64_t from, std::uint64_t to);

  bool started_ = false;
  bool anchored_ = false;  ///< a jump has been seen
  Instant last_;
  Milliwatts power_;
  std::optional<std::uint64_t> counter_;
  Picojoules settled_;  ///< up to the newest jump
  Picojoules since_;    ///< integrated since then
  Picojoules reported_;
  std::int64_t resets_ = 0;
  std::int64_t wraps_ = 0;
};

}  // namespace wattle::live
