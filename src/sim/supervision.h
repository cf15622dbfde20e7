#pragma once
// What times steps for the predictors and watches for those that overrun their prediction.
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/random.h"
#include "control/throttle.h"
#include "journal/summary.h"
#include "predict/online/online_latency.h"
#include "sim/agenda.h"
#include "sim/engines.h"
#include "sim/learning.h"

namespace wattle::sim {

struct SupervisionOptions {
  Span refit_delay;           ///< from the sample that made a refit due to the new model
  double sample_noise = 0.0;  ///< standard deviation, as a share, of what predictors learn of a step's time
  std::uint64_t seed = 1;
};

class Supervision {
 public:
  /// All outlive this.
  Supervision(const SupervisionOptions& options, Engines& engines, std::vector<control::Throttle>& throttles,
              Agenda& agenda)
      : options_(options),
        engines_(engines),
        throttles_(throttles),
        agenda_(agenda),
        noise_(options.seed, "sim.sample_noise") {}

  /// The next instance. `learner`: null where nothing learns; instances may share one. `overrun_slack`: max() where
  /// nothing watches.
  void add(InstanceId id, predict::OnlineLatency* learner, Span overrun_slack) {
    subjects_.push_back({id, learner, overrun_slack, {}, {}});
  }

  /// The engine has begun a run of steps.
  void run_begins(std::size_t i) {
    measure(i);
    watch(i);
  }
  void clock_changed(std::size_t i, Instant at) { subjects_[i].measuring.clock_changed(at); }
  /// What ran there has come to nothing.
  void cut_off(std::size_t i);

  // What was put on the agenda has come.
  void measured(std::size_t i, Instant now);
  void refitted(Instant now);
  void overrun(const Event& event);

  [[nodiscard]] journal::Prediction prediction() const;

 private:
  struct Subject {
    InstanceId id;
    predict::OnlineLatency* learner;
    Span overrun_slack;
    Measuring measuring;
    Watched watched;
  };
  /// A model in the making.
  struct Refitting {
    predict::OnlineLatency* learner;
    Result<std::shared_ptr<const LatencyModel>> model;
  };

  void measure(std::size_t i);
  void watch(std::size_t i);
  void expect_overrun(std::size_t i, std::int64_t from);
  void beliefs_changed(const predict::OnlineLatency* learner, Instant now);

  SupervisionOptions options_;
  Engines& engines_;
  std::vector<control::Throttle>& throttles_;
  Agenda& agenda_;
  RandomStream noise_;
  std::vector<Subject> subjects_;    ///< by instance
  std::deque<Refitting> refitting_;  ///< all take equally long, so the first begun is the first done
};

}  // namespace wattle::sim
