#pragma once
// Energy of one GPU from a counter that moves in jumps and a power reading: exact over the long run, honest over a
// second.
//
// How accurate: the counter is refreshed every 20 to 100 ms, so reading it at the ends of a window of 1 s is off by up
// to 10 %. A jump is noticed by the sample after it, so it is known to lie between two samples; energy up to there is
// the counter's, energy since is integrated from power. With a sample every 5 ms, windows of 1 s and more are within
// 2 % (tests/agent/meter_test.cc, against the virtual GPU's ground truth).
//
// Where the driver gives power only as the mean m of the last second (NVML's documentation of GetPowerUsage: Ampere and
// newer except GA100), that mean is undone: what was drawn between two samples is what was drawn a second before
// between the same two points, plus 1 s x the change of m. The second before is our own record. The counter cannot
// improve on it but by the fact that it had its new value at some instant between two samples: a record that
// contradicts that is stretched to agree. What was drawn in the second before the first sample is taken as constant,
// and so is any second in which m has not moved: a GPU that idles or runs evenly at the start. Else a shape that
// repeats every second within the counter's periods would stay wrong unseen, until such a second comes.
//
// This measures what a device says it has drawn. Booking energy to requests is the ledger's business (law 3).
#include <cstdint>
#include <deque>
#include <optional>

#include "node/gpu/status.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::node {

class EnergyMeter {
 public:
  explicit EnergyMeter(PowerReading reading = PowerReading::Instant) : reading_(reading) {}

  /// `counter_mj` is absent where the device has none: then power alone is integrated. Samples in order of time.
  void sample(std::optional<std::uint64_t> counter_mj, Milliwatts power, Instant now);
  /// Since the first sample; never decreases.
  [[nodiscard]] Picojoules total() const { return reported_; }
  [[nodiscard]] Milliwatts power() const { return power_; }
  /// The counter went backwards and it was no 32-bit overflow: the driver was reloaded.
  [[nodiscard]] std::int64_t resets() const { return resets_; }

 private:
  struct Point {
    Instant at;
    Picojoules total;
    Milliwatts mean;
  };
  [[nodiscard]] Picojoules jump(std::uint64_t from, std::uint64_t to);
  void sample_mean(std::optional<std::uint64_t> counter_mj, Milliwatts mean, Instant now);
  [[nodiscard]] std::optional<Picojoules> recorded(Instant t) const;
  [[nodiscard]] bool steady() const;
  void agree(Picojoules low, Picojoules high);

  PowerReading reading_;
  std::deque<Point> record_;  ///< of the last second and a bit, for a reading that is a mean
  Point anchor_;              ///< of the record, just after the newest jump
  Picojoules counted_;        ///< what total() was at the newest jump, by the counter
  bool started_ = false;
  bool anchored_ = false;  ///< a jump has been seen
  Instant last_;
  Milliwatts power_;
  std::optional<std::uint64_t> counter_;
  Picojoules settled_;  ///< up to the newest jump
  Picojoules since_;    ///< integrated since then
  Picojoules reported_;
  std::int64_t resets_ = 0;
};

/// Mean power between two looks at a meter's total.
class MeanPower {
 public:
  /// `total` at `at`, and the mean since the last call; none: that was the first, or no sample has come since.
  [[nodiscard]] std::optional<Milliwatts> since_last(Picojoules total, Instant at) {
    const Picojoules drawn = total - total_;
    const Span passed = at - at_;
    const bool known = at_ != Instant() && passed > Span();
    total_ = total;
    at_ = at;
    if (!known) return std::nullopt;
    return Milliwatts(static_cast<std::int64_t>(drawn.value() / passed.ns()));
  }

 private:
  Picojoules total_;
  Instant at_;
};

}  // namespace wattle::node
