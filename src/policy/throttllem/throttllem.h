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

/// What a request that outlives its prediction is taken to become.
enum class Outlived : std::uint8_t {
  Limit,     ///< its max_tokens (the paper)
  Residual,  ///< first what a LengthModel says that requests as long have become
};

struct ThrottllemOptions {
  double margin = 0.0;     ///< share of each objective kept in reserve, in [0, 1)
  double inflation = 0.0;  ///< predicted lengths are taken (1 + this) times as long: the predictor's expected error
  /// Iterations a request may outlive its prediction before it is re-projected at its max_tokens. The paper has 0 and
  /// counts iterations in the engine; seen from outside, counts drift by a few.
  std::int32_t grace = 4;
  /// Admission counts the time to compute prompts against running requests' deadlines. The paper does not; with it,
  /// less is admitted near saturation, and more requests are late for having waited. The clock always counts it.
  bool count_prefill = false;
  Outlived outlived = Outlived::Limit;
};

/// Of the clocks that keep every objective.
enum class ClockPick : std::uint8_t {
  Lowest,       ///< the paper
  LeastEnergy,  ///< that at which what runs takes least energy by Beliefs::power; without that belief the lowest
};

struct ThrottllemClockOptions {
  ClockPick pick = ClockPick::Lowest;
  std::vector<ClockSetting> clocks = {};               ///< to choose from, ascending; empty: all the instance has
  ClockSetting lowest_clock = ClockSetting::lowest();  ///< with clocks empty: none below
  /// Choose again whenever a request ends or outlives its prediction, not only when one is admitted (as in the paper).
  bool on_leave = false;
  /// The highest clock while requests are held, seen at the next change of the batch: a lower one keeps requests in the
  /// cache for longer, and so those who wait for room. The paper's clock does not know of the queue.
  bool max_while_held = false;
  /// Share of the objectives the clock leaves unused, in [0, 1), on top of admission's margin. Admission may use it up:
  /// with none, requests that were slowed down to their deadline leave no room to admit anyone (the paper has none).
  double margin = 0.0;
  bool park_idle = false;  ///< otherwise an instance without work keeps its clock
  ClockSetting idle_clock = ClockSetting::lowest();
};

/// Admission of a fleet and clocks of its instances. The instances' objectives count: tbt bounds the mean iteration,
/// e2e each request; an absent one bounds nothing.
///
/// Admission makes the three checks. Instances are tried from the fewest assigned requests up; the first that passes is
/// bound to. What the paper leaves open, decided: an instance without requests takes any request that fits its KV
/// cache, so that nothing waits for ever; requests that miss their deadline with or without the newcomer become lost
/// instead of blocking the queue; a prediction is clamped to [1, max_tokens] and to what the KV cache can hold, and an
/// absent one is max_tokens; an instance whose predictor is absent or answers nonsense checks KV alone.
///
/// The clock is the lowest that passes checks 2 and 3, by binary search, or of those that pass the one with which what
/// runs takes least energy: far below the energy-optimal clock a batch takes longer and more. It is the highest while a
/// lost request runs, when no clock passes, when telemetry is lost and when the predictor is not believed.
class Throttllem final : public AdmissionPolicy, public FrequencyPolicy {
 public:
  /// `length` is asked with Outlived::Residual; may be null.
  explicit Throttllem(const ThrottllemOptions& options, ThrottllemClockOptions clock = {},
                      std::shared_ptr<const LengthModel> length = nullptr);

  [[nodiscard]] EventKinds observes() const override {
    return EventKinds::of<event::Joined, event::Gone, event::Started, event::FirstToken, event::Left>();
  }
  void observe(const Event& event, Instant now) override;
  AdmissionDecision admit(const Request& request, const FleetSnapshot& fleet) override;
  /// Of an instance that has joined, and is colocated; for another the GPU's highest.
  ClockDecision choose(const InstanceView& view, Instant now) override;

  /// Null: no such instance.
  [[nodiscard]] const Scoreboard* board(InstanceId id) const;
  [[nodiscard]] const ThrottllemOptions& options() const { return options_; }

 private:
  /// One instance, as long as it is there.
  struct Instance {
    const InstanceSpec* spec;
    Scoreboard board;
    Forecaster forecaster = {};
    std::vector<MegaHertz> clocks = {};  ///< ascending, not empty
    Span tbt = Span::max();              ///< objectives after admission's margin
    Span e2e = Span::max();
    Span clock_tbt = Span::max();   ///< after the clock's, too
    Span reserve = {};              ///< of each deadline, for the clock
    bool holding = false;           ///< the newest request asked about has to wait
    std::int64_t admissions = 0;    ///< counts what calls for another clock: admissions, no lost one left
    std::int64_t turns = 0;         ///< how often holding began or ended
    std::int64_t decided_for = -1;  ///< calls for another clock until then
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
