#pragma once
// Which clocks sustain the load of a prefill instance. Ours: docs/decisions/0048.
#include <span>
#include <vector>

#include "model/beliefs.h"
#include "policy/frequency/recent_minutes.h"

namespace wattle::policy {

/// While no prompt waits, a prefill instance can compute each at a low clock and meet TTFT. If its load is close to its
/// capacity, the time lost so makes the queue longer that comes later. A clock carries the load if at this clock the
/// prompts of the last one to two minutes would have taken less time than has passed.
class PrefillLoad {
 public:
  /// `clocks` ascending, at least one.
  PrefillLoad(std::span<const MegaHertz> clocks, const LatencyModel& latency);

  /// At `now` a step runs that began at `start`; it counts once. Does not allocate.
  void note(const StepShape& shape, Instant start, Instant now);
  /// The lowest clock that carries the load; if none does, the highest.
  [[nodiscard]] MegaHertz least(Instant now) const;

 private:
  struct Counts {
    std::vector<double> busy_s;  ///< time of steps, by clock
  };
  std::vector<MegaHertz> clocks_;
  const LatencyModel* latency_;
  RecentMinutes<Counts> counts_;
  Instant newest_ = Instant::never();  ///< start of the newest step counted
};

}  // namespace wattle::policy
