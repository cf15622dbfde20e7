#pragma once
// Energy of one GPU from a counter that is updated in jumps and a power reading: exact in the long run, accurate over a
// second.
//
// Accuracy: the counter is updated every 20 to 100 ms, so reading it at the ends of a window of 1 s is off by up to 10
// %. A jump is seen by the next sample, so it lies between two samples; energy up to there is the counter's, energy
// since then is integrated from power. With a sample every 5 ms, windows of 1 s and more are within 2 %
// (tests/agent/meter_test.cc, against the virtual GPU's ground truth).
//
// If the driver provides power only as the mean m of the last second (NVML's documentation of GetPowerUsage: Ampere and
// newer except GA100), the mean is inverted: the energy between two samples is the energy between the same two points
// one second earlier, plus 1 s x the change of m. The second before is our own record. The counter adds only one
// constraint: it reached its new value at some instant between two samples; a record that contradicts this is stretched
// to agree. Power in the second before the first sample is assumed constant, and so is any second in which m has not
// changed: a GPU that is idle or runs evenly at the start. Otherwise a pattern that repeats every second within the
// counter's periods would remain wrong until such a second comes.
//
// This measures the energy that a device reports. Booking it to requests is the ledger's task (law 3).
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

  /// `counter_mj` is absent if the device has none: then power alone is integrated. Samples in order of time.
  void sample(std::optional<std::uint64_t> counter_mj, Milliwatts power, Instant now);
  /// Since the first sample; never decreases.
  [[nodiscard]] Picojoules total() const { return reported_; }
  [[nodiscard]] Milliwatts power() const { return power_; }
  /// Number of times that the counter went backwards without a 32-bit overflow: the driver was reloaded.
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
  std::deque<Point> record_;  ///< of slightly more than the last second, for a reading that is a mean
  Point anchor_;              ///< of the record, just after the newest jump
  Picojoules counted_;        ///< total() at the newest jump, by the counter
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

/// Mean power between two reads of a meter's total.
class MeanPower {
 public:
  /// `total` at `at`. Returns the mean since the last call; none: this was the first, or no sample has come since.
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
