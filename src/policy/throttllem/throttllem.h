#pragma once
// throttLL'eM (HPCA 2025): admission and clock of an instance from one projection of its future.
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "model/clock_setting.h"
#include "model/length.h"
#include "policy/admission/admission.h"
#include "policy/frequency/frequency.h"
#include "policy/throttllem/forecast.h"

namespace wattle::policy {

/// The assumed length of a request that outlives its prediction.
enum class Outlived : std::uint8_t {
  Limit,     ///< its max_tokens (the paper)
  Residual,  ///< first what a LengthModel predicts for requests that are already this long
};

struct ThrottllemOptions {
  double margin = 0.0;     ///< share of each objective kept in reserve, in [0, 1)
  double inflation = 0.0;  ///< predicted lengths are multiplied by (1 + this): the predictor's expected error
  /// Iterations by which a request may outlive its prediction before it is re-projected at its max_tokens. The paper
  /// has 0 and counts iterations in the engine; seen from outside, counts drift by a few.
  std::int32_t grace = 4;
  /// Admission counts the time to compute prompts against running requests' deadlines. The paper does not; with it,
  /// less is admitted near saturation, and more requests are late because they waited. The clock always counts it.
  bool count_prefill = false;
  Outlived outlived = Outlived::Limit;
};

/// Choice among the clocks that keep every objective.
enum class ClockPick : std::uint8_t {
  Lowest,       ///< the paper
  LeastEnergy,  ///< least energy of the running requests by Beliefs::power; without that belief the lowest
};

struct ThrottllemClockOptions {
  ClockPick pick = ClockPick::Lowest;
  std::vector<ClockSetting> clocks = {};               ///< to choose from, ascending; empty: all clocks of the instance
  ClockSetting lowest_clock = ClockSetting::lowest();  ///< if `clocks` is empty: lower bound
  /// Choose again whenever a request ends or outlives its prediction, not only when one is admitted (as in the paper).
  bool on_leave = false;
  /// Highest clock while requests are held, applied at the next change of the batch: a lower clock keeps requests in
  /// the cache longer, and so those that wait for room. The paper's clock does not know the queue.
  bool max_while_held = false;
  /// Share of the objectives that the clock leaves unused, in [0, 1), beyond admission's margin. Admission may use it:
  /// without it, requests that were slowed down to their deadline leave no room to admit others (the paper has none).
  double margin = 0.0;
  bool park_idle = false;  ///< false: an instance without work keeps its clock
  ClockSetting idle_clock = ClockSetting::lowest();
};

/// Admission of a fleet and clocks of its instances. The instances' objectives count: tbt bounds the mean iteration,
/// e2e each request; an absent one sets no bound.
///
/// Admission makes the three checks. Instances are tried in order of assigned requests, fewest first; the request is
/// bound to the first that passes. Our choices where the paper says nothing: an instance without requests takes any
/// request that fits its KV cache, so that nothing waits for ever; requests that miss their deadline with or without
/// the new one become lost instead of blocking the queue; a prediction is clamped to [1, max_tokens] and to the KV
/// cache, and an absent one is max_tokens; an instance without a plausible predictor checks KV only.
///
/// The clock is the lowest that passes checks 2 and 3, by binary search, or among those that pass, the one at which the
/// running requests use least energy: far below the energy-optimal clock a batch takes longer and uses more. It is the
/// highest while a lost request runs, if no clock passes, if telemetry is lost and if the predictor is not plausible.
class Throttllem final : public AdmissionPolicy, public FrequencyPolicy {
 public:
  /// `length` is used with Outlived::Residual; may be null.
  explicit Throttllem(const ThrottllemOptions& options, ThrottllemClockOptions clock = {},
                      std::shared_ptr<const LengthModel> length = nullptr);

  [[nodiscard]] EventKinds observes() const override {
    return EventKinds::of<event::Joined, event::Gone, event::Started, event::FirstToken, event::Left>();
  }
  void observe(const Event& event, Instant now) override;
  AdmissionDecision admit(const Request& request, const FleetSnapshot& fleet) override;
  /// For a colocated instance that has joined; otherwise the GPU's highest clock.
  ClockDecision choose(const InstanceView& view, Instant now) override;

  /// Null: unknown instance.
  [[nodiscard]] const Scoreboard* board(InstanceId id) const;
  [[nodiscard]] const ThrottllemOptions& options() const { return options_; }

 private:
  /// State of one instance while it is present.
  struct Instance {
    const InstanceSpec* spec;
    Scoreboard board;
    Forecaster forecaster = {};
    std::vector<MegaHertz> clocks = {};  ///< ascending, not empty
    Span tbt = Span::max();              ///< objectives after admission's margin
    Span e2e = Span::max();
    Span clock_tbt = Span::max();   ///< after the clock's margin as well
    Span reserve = {};              ///< before each deadline, for the clock
    bool holding = false;           ///< the newest request asked about has to wait
    std::int64_t admissions = 0;    ///< counts reasons for another clock: admissions, no lost request left
    std::int64_t turns = 0;         ///< number of times that holding began or ended
    std::int64_t decided_for = -1;  ///< reasons for another clock handled so far
    ClockDecision current = {};

    [[nodiscard]] const LatencyModel* latency() const { return spec->beliefs.latency; }
    [[nodiscard]] Instant deadline(const Request& request) const {
      return e2e == Span::max() ? Instant::never() : request.arrival + e2e;
    }
  };
  struct Verdict {
    Admission admission = Admission::Admit;
    const char* reason = "";
    bool lost = false;
  };
  [[nodiscard]] Instance* find(InstanceId id);
  void joined(const InstanceView& view);
  void started(const Request& request, const InstanceView& view, Instant now);
  void left(const Outcome& outcome);
  Verdict examine(Instance& instance, const InstanceView& view, const Request& request, Instant now);
  [[nodiscard]] Projected project(const Instance& instance, const Request& request) const;
  [[nodiscard]] ForecastBasis between_steps(const Instance& instance, const InstanceView& view, Instant now) const;
  void choose_again(Instance& instance, const InstanceView& view, Instant now);

  ThrottllemOptions options_;
  ThrottllemClockOptions clock_;
  std::shared_ptr<const LengthModel> length_;
  std::map<InstanceId, Instance> instances_;
  std::vector<const InstanceView*> order_;  ///< scratch
  // The newest positive answer, so that what starts next is not examined twice.
  RequestId admitted_{-1};
  InstanceId admitted_at_ = kNoInstance;
  bool admitted_lost_ = false;
};

}  // namespace wattle::policy
