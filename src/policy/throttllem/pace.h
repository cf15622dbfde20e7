#pragma once
#include "model/beliefs.h"
#include "model/step.h"

namespace wattle::policy {

/// How much longer an instance's iterations take than a model of decodes says: prompts of those who come later are
/// computed in between, clock changes take effect late, the model errs. Ours; the paper's projection knows of none of
/// it.
class Pace {
 public:
  /// A step starts; `clock` was in force since the last one told. Steps in between need not be told.
  void step(const StepReport& report, MegaHertz clock, const LatencyModel& latency);
  /// No work, or nothing known: what comes next has no predecessor.
  void pause() { running_ = false; }
  /// Observed / predicted over about the last minute, in [1, kMost].
  [[nodiscard]] double ratio() const { return ratio_; }

  static constexpr double kMost = 4.0;

 private:
  StepReport last_;
  bool running_ = false;
  double ratio_ = 1.0;
};

}  // namespace wattle::policy
