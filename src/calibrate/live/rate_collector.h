#pragma once
// throttLL'eM's collection procedure for its performance model M (section IV-C1) on a live engine. For the simulated
// engine see calibrate/rate_profile.h.
#include <atomic>
#include <string>
#include <vector>

#include "base/random.h"
#include "calibrate/live/grid.h"
#include "calibrate/live/hardware.h"
#include "calibrate/live/steps.h"
#include "calibrate/live/streams.h"
#include "calibrate/live/telemetry_tap.h"

namespace wattle::calibrate {

/// A time during which a clock was locked.
struct ClockWindow {
  MegaHertz clock;
  Instant begin, end;
};

/// The steps of `run` that lie wholly within the window, as one measurement. None: fewer than `least`.
[[nodiscard]] std::optional<Stretch> steps_within(const Lockstep& run, const ClockWindow& window, std::int64_t least);

struct RateCollectorOptions {
  std::vector<MegaHertz> clocks;  ///< clocks to draw from; not empty
  Span window = Span::s(1);       ///< of one measurement; the paper logs once per second
};

/// The paper's monitoring agent: runs a batch until it fills the cache, and repeatedly draws a clock, waits until it is
/// in effect, and counts the iterations of one window.
class RateCollector {
 public:
  /// `tap`: null if steps are inferred from the streams. All outlive this.
  RateCollector(RateCollectorOptions options, StreamLoad& load, Hardware& hardware, const TelemetryTap* tap,
                const std::atomic<bool>& stop)
      : options_(std::move(options)), load_(load), hardware_(hardware), tap_(tap), stop_(stop) {}

  /// Measures one batch. Returns an empty string, or why there is no result. Errors: a clock that cannot be locked.
  [[nodiscard]] Result<std::string> visit(const Cell& cell);
  [[nodiscard]] const std::vector<predict::ProfileRow>& rows() const { return rows_; }

 private:
  RateCollectorOptions options_;
  StreamLoad& load_;
  Hardware& hardware_;
  const TelemetryTap* tap_;
  const std::atomic<bool>& stop_;
  RandomStream random_{1, "profile.rates"};
  std::vector<predict::ProfileRow> rows_;
};

}  // namespace wattle::calibrate
