#pragma once
// What the simulation keeps per instance so that predictors are measured and steps watched: which step is being timed,
// and when the run in progress will overrun its prediction.
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "control/throttle.h"
#include "engine/replica.h"
#include "journal/summary.h"
#include "predict/online/online_latency.h"

namespace wattle::sim {

/// Steps being timed for the predictor: the one in progress, and the one that has just ended and not been taken yet.
class Measuring {
 public:
  /// The first step of `run`, at this clock.
  void begin(const engine::Replica::Run& run, const StepShape& shape, MegaHertz clock);
  [[nodiscard]] Instant end() const { return steps_[newest_].end; }
  /// A step during which the clock changed was at no clock in particular.
  void clock_changed(Instant at);
  void cut_off();
  /// The step that ended now, once; none: it is not good for anything.
  [[nodiscard]] std::optional<predict::StepSample> take(Instant now);

 private:
  struct Step {
    predict::StepSample sample;
    Instant begin;
    Instant end;
    bool good = false;
  };
  std::array<Step, 2> steps_;
  std::size_t newest_ = 0;
};

/// What the overrun watchdog knows of an instance's run in progress.
struct Watched {
  engine::Replica::Run run;
  StepShape shape;
  MegaHertz clock;
  std::int64_t sequence = 0;     ///< of the run's first step
  std::uint32_t generation = 0;  ///< counts runs: events of an older one are stale

  struct Overrun {
    std::int64_t step;
    Instant due;
  };
  /// The first step of the run, at or after `from`, that will overrun, and when. What is allowed never falls as the KV
  /// cache grows, so a step with time to spare vouches for as many successors as that time feeds.
  [[nodiscard]] std::optional<Overrun> next(const control::Throttle& throttle, std::int64_t from) const;
};

/// Of all these together, weighted by samples; drift is that of the last.
[[nodiscard]] journal::Prediction prediction_of(std::span<const predict::OnlineLatency* const> learners);

}  // namespace wattle::sim
