#pragma once
// Finds, within runs of steps that are simulated at once, a step that overruns, or that lasts so long that a live
// driver would take its engine's telemetry for lost. Both rules are the loop's (control::InstanceLoop::allowed,
// lost_at); this only searches the steps that are not reported singly.
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
  /// Removes an instance; later ones move up a position.
  void remove(std::size_t i) { erase_at(watched_, i); }
  /// The engine has begun a run of steps, or the loop has decided again within one: watch from now on.
  void run_begins(std::size_t i, Instant now) {
    const std::int64_t sequence = engines_[i].report(now).sequence;  // the rest of the run
    const engine::Replica::Run& run = engines_[i].run();
    // Steps of a run only become longer, so its last step shows whether any lasts this long.
    if (run.first + run.increment * (run.steps - 1) > patience() && run.steps > 0) expect_silence(i, sequence, now);
    if (loop_.watched(i)) watch(i, sequence, now);
  }
  /// What ran there has been aborted.
  void cut_off(std::size_t i) { ++watched_[i].generation; }
  /// A scheduled event is due.
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
