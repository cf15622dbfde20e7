#pragma once
// The ReTail-like baseline of throttLL'eM's evaluation (section V-F3; ReTail: HPCA 2022): one linear regression from
// present features to end-to-end latency, and the lowest clock that suits every queued request.
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "model/clock_setting.h"
#include "policy/admission/admission.h"
#include "policy/frequency/frequency.h"

namespace wattle::policy {

struct RetailOptions {
  double margin = 0.0;     ///< share of slo.e2e kept in reserve, in [0, 1)
  double inflation = 0.0;  ///< predicted lengths are multiplied by (1 + this)
};

struct RetailClockOptions {
  std::vector<ClockSetting> clocks = {};               ///< to choose from, ascending; empty: all clocks of the instance
  ClockSetting lowest_clock = ClockSetting::lowest();  ///< if `clocks` is empty: lower bound
};

/// Admits everything (the engine queues) and tracks each instance's queue. An instance's clock is chosen when a request
/// arrives there: the lowest at which, for every queued request, the waiting time so far plus the predicted latency
/// (Beliefs::request) is within slo.e2e; the highest if there is none or telemetry is lost. Batch and KV cache are
/// assumed to stay as they are.
class Retail final : public AdmissionPolicy, public FrequencyPolicy {
 public:
  explicit Retail(const RetailOptions& options, RetailClockOptions clock = {});

  [[nodiscard]] EventKinds observes() const override {
    return EventKinds::of<event::Joined, event::Gone, event::Started, event::Left>();
  }
  void observe(const Event& event, Instant now) override;
  AdmissionDecision admit(const Request&, const FleetSnapshot&) override { return {Admission::Admit, "always"}; }
  /// For an instance that has joined with a Beliefs::request and an slo.e2e; otherwise the GPU's highest clock.
  ClockDecision choose(const InstanceView& view, Instant now) override;

 private:
  struct Job {
    Instant arrival;
    Instant dispatched;
    std::int32_t prompt_tokens = 0;
    std::int32_t output_tokens = 0;  ///< predicted and inflated; max_tokens if not predicted
  };
  struct Instance {
    const InstanceSpec* spec;
    std::vector<MegaHertz> clocks;                ///< ascending, not empty
    double budget_s = 0.0;                        ///< time that a request may take, after the margin
    std::unordered_map<std::int64_t, Job> queue;  ///< dispatched and not yet finished
    std::int64_t arrivals = 0;
    std::int64_t decided_for = -1;
    ClockDecision current;
  };
  void joined(const InstanceView& view);
  void started(const Request& request, const InstanceView& view, Instant now);

  RetailOptions options_;
  RetailClockOptions clock_;
  std::map<InstanceId, Instance> instances_;
};

}  // namespace wattle::policy
