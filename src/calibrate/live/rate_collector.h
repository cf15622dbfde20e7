#pragma once
// throttLL'eM's collection procedure for its performance model M (section IV-C1) on a live engine. The simulated engine
// has apps/rate_profile.h.
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

/// While some clock was held.
struct ClockWindow {
  MegaHertz clock;
  Instant begin, end;
};

/// The steps of `run` that lie wholly within the window, as one measurement. None: fewer than `least`.
[[nodiscard]] std::optional<Stretch> steps_within(const Lockstep& run, const ClockWindow& window, std::int64_t least);

struct RateCollectorOptions {
  std::vector<MegaHertz> clocks;  ///< drawn from; not empty
  Span window = Span::s(1);       ///< of one measurement; the paper logs every second
};

/// The paper's monitoring agent: lets a batch run until it fills the cache, and over and over draws a clock, waits
/// until it holds, and counts the iterations of one window.
class RateCollector {
 public:
  /// `tap`: null where steps are inferred from the streams. All outlive this.
  RateCollector(RateCollectorOptions options, StreamLoad& load, Hardware& hardware, const TelemetryTap* tap,
                const std::atomic<bool>& stop)
      : options_(std::move(options)), load_(load), hardware_(hardware), tap_(tap), stop_(stop) {}

  /// One batch. Empty, or why it gave nothing. Errors: a clock that cannot be locked.
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
