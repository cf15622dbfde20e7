#pragma once
// When, in runs of steps that are simulated at once, a step overruns, or lasts so long that a live driver takes its
// engine's telemetry for lost. Both are the loop's rules (control::InstanceLoop::allowed, lost_at); here the step is
// only sought among those nobody reports.
#include <cstdint>
#include <optional>
#include <vector>

#include "control/instance_loop.h"
#include "engine/replica.h"
#include "sim/agenda.h"
#include "sim/engines.h"

namespace wattle::sim {

class Watchdog {
 public:
  /// All outlive this.
  Watchdog(Engines& engines, control::InstanceLoop& loop, Agenda& agenda)
      : engines_(engines), loop_(loop), agenda_(agenda) {}

  void add() { watched_.emplace_back(); }
  /// It is gone; those behind it move up a position.
  void remove(std::size_t i) { erase_at(watched_, i); }
  /// The engine has begun a run of steps, or the loop has decided again in the midst of one: that counts from now.
  void run_begins(std::size_t i, Instant now) {
    const std::int64_t sequence = engines_[i].report(now).sequence;  // leaves of a run what is still to come
    const engine::Replica::Run& run = engines_[i].run();
    // Steps of a run only grow, so that its last tells whether any lasts so long.
    if (run.first + run.increment * (run.steps - 1) > patience() && run.steps > 0) expect_silence(i, sequence, now);
    if (loop_.watched(i)) watch(i, sequence, now);
  }
  /// What ran there has come to nothing.
  void cut_off(std::size_t i) { ++watched_[i].generation; }
  /// What was put on the agenda has come.
  void overrun(const Event& event);
  void silence(const Event& event);

  [[nodiscard]] std::size_t size() const { return watched_.size(); }

 private:
  struct Watched {
    engine::Replica::Run run;
    StepShape shape;
    std::int64_t sequence = 0;     ///< of the run's first step
    Instant since;                 ///< no step was watched before
    std::uint32_t generation = 0;  ///< counts runs: events of an older one are stale
  };
  struct Overrun {
    std::int64_t step;
    Instant due;
  };
  [[nodiscard]] std::optional<Overrun> next(std::size_t i, std::int64_t from) const;
  void expect(std::size_t i, std::int64_t from);
  void expect_silence(std::size_t i, std::int64_t sequence, Instant now);
  void watch(std::size_t i, std::int64_t sequence, Instant now);
  /// No step shorter than this, fixed point, lasts until telemetry is lost.
  [[nodiscard]] std::int64_t patience() const {
    constexpr std::int64_t kMostStretched = 8;  // no change of clock makes more of a step
    return (loop_.lost_after().ns() << engine::kTimeFractionBits) / kMostStretched;
  }

  Engines& engines_;
  control::InstanceLoop& loop_;
  Agenda& agenda_;
  std::vector<Watched> watched_;  ///< by position
};

}  // namespace wattle::sim
