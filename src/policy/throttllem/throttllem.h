#pragma once
// throttLL'eM (HPCA 2025): admission and clock of an instance from one projection of its future.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/length.h"
#include "policy/admission/admission.h"
#include "policy/frequency/frequency.h"
#include "policy/throttllem/forecast.h"

namespace wattle::policy {

struct ThrottllemOptions {
  Slo slo;                 ///< tbt bounds the mean iteration, e2e each request; an absent one bounds nothing
  double margin = 0.0;     ///< share of each objective kept in reserve, in [0, 1)
  double inflation = 0.0;  ///< predicted lengths are taken (1 + this) times as long: the predictor's expected error
  /// Iterations a request may outlive its prediction before it is re-projected at its max_tokens. The paper has 0 and
  /// counts iterations in the engine; seen from outside, counts drift by a few.
  std::int32_t grace = 4;
  std::int32_t block_size = 16;  ///< KV tokens per block
  /// Admission counts the time to compute prompts against running requests' deadlines. The paper does not; with it,
  /// less is admitted near saturation, and more requests are late for having waited. The clock always counts it.
  bool count_prefill = false;
  /// Who is asked what a request that outlives its prediction may still become; none (the paper): max_tokens.
  std::shared_ptr<const LengthModel> residual;
};

/// One instance as throttLL'eM sees it: shared by its admission and its clock.
struct ThrottllemDesk {
  Scoreboard board;
  Forecaster forecaster;
  std::vector<MegaHertz> clocks;          ///< ascending, not empty
  const LatencyModel* latency = nullptr;  ///< null: nothing is believed but KV
  bool holding = false;                   ///< the newest request asked about has to wait
  std::int64_t admissions = 0;            ///< counts what calls for another clock: admissions, no lost one left
  std::int64_t turns = 0;                 ///< how often holding began or ended
};

/// The desks of a fleet. Admission (one per fleet) and clocks (one per instance) hold it together.
class ThrottllemFleet {
 public:
  explicit ThrottllemFleet(ThrottllemOptions options);

  /// Errors are programming errors: clocks must ascend and not be empty. Replaces the desk of this id.
  void add(InstanceId id, std::vector<MegaHertz> clocks, const LatencyModel* latency);
  /// Null: no desk.
  [[nodiscard]] ThrottllemDesk* desk(InstanceId id);
  [[nodiscard]] std::size_t size() const { return desks_.size(); }
  [[nodiscard]] const ThrottllemOptions& options() const { return options_; }

  [[nodiscard]] Span tbt() const { return tbt_; }
  /// Of a request, after the margin.
  [[nodiscard]] Instant deadline(const Request& request) const;

 private:
  ThrottllemOptions options_;
  Span tbt_ = Span::max();
  Span e2e_ = Span::max();
  std::vector<std::unique_ptr<ThrottllemDesk>> desks_;  ///< by instance id
};

/// The three checks. Instances are tried from the fewest assigned requests up; the first that passes is bound to.
/// What the paper leaves open, decided: an instance without requests takes any request that fits its KV cache, so that
/// nothing waits for ever; requests that miss their deadline with or without the newcomer become lost instead of
/// blocking the queue; a prediction is clamped to [1, max_tokens] and to what the KV cache can hold, and an absent one
/// is max_tokens; an instance whose predictor is absent or answers nonsense checks KV alone.
class ThrottllemAdmission final : public AdmissionPolicy {
 public:
  explicit ThrottllemAdmission(std::shared_ptr<ThrottllemFleet> fleet) : fleet_(std::move(fleet)) {}

  AdmissionDecision admit(const Request& request, const QueueView& queue, const FleetSnapshot& fleet) override;
  void started(const Request& request, const InstanceView& view, Instant now) override;
  void first_token(const Request& request, const InstanceView& view, Instant now) override;
  void observe(const Outcome& outcome, Instant now) override;

 private:
  struct Verdict {
    Admission admission = Admission::Admit;
    const char* reason = "";
    bool lost = false;
  };
  Verdict examine(ThrottllemDesk& desk, const InstanceView& view, const Request& request, Instant now);
  [[nodiscard]] Projected project(const ThrottllemDesk& desk, const InstanceView& view, const Request& request) const;

  std::shared_ptr<ThrottllemFleet> fleet_;
  std::vector<const InstanceView*> order_;  ///< scratch
  // The newest positive answer, so that what starts next is not examined twice.
  RequestId admitted_{-1};
  InstanceId admitted_at_ = kNoInstance;
  bool admitted_lost_ = false;
};

struct ThrottllemClockOptions {
  /// Choose again whenever a request ends or outlives its prediction, not only when one is admitted (as in the paper).
  bool on_leave = false;
  /// The highest clock while requests are held, seen at the next change of the batch: a lower one keeps requests in the
  /// cache for longer, and so those who wait for room. The paper's clock does not know of the queue.
  bool max_while_held = false;
  /// Share of the objectives the clock leaves unused, in [0, 1), on top of the fleet's margin. Admission may use it up:
  /// with none, requests that were slowed down to their deadline leave no room to admit anyone (the paper has none).
  double margin = 0.0;
  std::optional<MegaHertz> idle_clock;  ///< none: an instance without work keeps its clock
};

/// The lowest clock that passes checks 2 and 3, by binary search; the highest while a lost request runs, when no clock
/// passes, when telemetry is lost and when the predictor is not believed. Needs a desk.
class ThrottllemClock final : public FrequencyPolicy {
 public:
  ThrottllemClock(std::shared_ptr<ThrottllemFleet> fleet, InstanceId instance, ThrottllemClockOptions options);
  ClockDecision choose(const InstanceView& view, const Beliefs& beliefs, Instant now) override;

 private:
  std::shared_ptr<ThrottllemFleet> fleet_;
  ThrottllemDesk& desk_;
  ThrottllemClockOptions options_;
  Span reserve_;  ///< of each deadline
  Span tbt_ = Span::max();
  std::int64_t decided_for_ = -1;  ///< calls for another clock until then
  ClockDecision current_;
};

}  // namespace wattle::policy
