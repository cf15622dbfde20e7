#pragma once
// The ReTail-like baseline of throttLL'eM's evaluation (section V-F3; ReTail: HPCA 2022): one linear regression from
// what is known now to end-to-end latency, and the lowest clock that suits every request in the queue.
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
  double inflation = 0.0;  ///< predicted lengths are taken (1 + this) times as long
};

struct RetailClockOptions {
  std::vector<ClockSetting> clocks = {};               ///< to choose from, ascending; empty: all the instance has
  ClockSetting lowest_clock = ClockSetting::lowest();  ///< with clocks empty: none below
};

/// Admits everything (the engine queues) and knows what each instance has in its queue. An instance's clock is chosen
/// when a request has arrived there: the lowest at which every queued request's waiting time so far plus its predicted
/// latency (Beliefs::request) is within slo.e2e; the highest when none is, or telemetry is lost. Batch and KV cache are
/// taken as they are now.
class Retail final : public AdmissionPolicy, public FrequencyPolicy {
 public:
  explicit Retail(const RetailOptions& options, RetailClockOptions clock = {});

  [[nodiscard]] EventKinds observes() const override {
    return EventKinds::of<event::Joined, event::Gone, event::Started, event::Left>();
  }
  void observe(const Event& event, Instant now) override;
  AdmissionDecision admit(const Request&, const FleetSnapshot&) override { return {Admission::Admit, "always"}; }
  /// Of an instance that has joined with a Beliefs::request and an slo.e2e; for another the GPU's highest.
  ClockDecision choose(const InstanceView& view, Instant now) override;

 private:
  struct Job {
    Instant arrival;
    Instant dispatched;
    std::int32_t prompt_tokens = 0;
    std::int32_t output_tokens = 0;  ///< predicted and inflated; max_tokens where nothing is predicted
  };
  struct Instance {
    const InstanceSpec* spec;
    std::vector<MegaHertz> clocks;                ///< ascending, not empty
    double budget_s = 0.0;                        ///< what a request may take, after the margin
    std::unordered_map<std::int64_t, Job> queue;  ///< dispatched and not yet left
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
