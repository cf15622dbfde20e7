#pragma once
// The ReTail-like baseline of throttLL'eM's evaluation (section V-F3; ReTail: HPCA 2022): one linear regression from
// what is known now to end-to-end latency, and the lowest clock that suits every request in the queue.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "policy/admission/admission.h"
#include "policy/frequency/frequency.h"

namespace wattle::policy {

/// Seconds from dispatch to the last token = sum of weights x (1, clock MHz, running requests, KV tokens, prompt
/// tokens, output tokens). Linear in the clock, as the paper says: it explains little of it.
struct RetailModel {
  std::array<double, 6> weights{};

  [[nodiscard]] double seconds(MegaHertz clock, double batch, double kv_tokens, double prompt_tokens,
                               double output_tokens) const {
    return weights[0] + weights[1] * clock.value() + weights[2] * batch + weights[3] * kv_tokens +
           weights[4] * prompt_tokens + weights[5] * output_tokens;
  }
};

/// What admission and the clock of one instance share.
struct RetailDesk {
  struct Job {
    Instant arrival;
    Instant dispatched;
    std::int32_t prompt_tokens = 0;
    std::int32_t output_tokens = 0;  ///< predicted and inflated; max_tokens where nothing is predicted
  };
  RetailModel model;
  std::vector<MegaHertz> clocks;                ///< ascending, not empty
  std::unordered_map<std::int64_t, Job> queue;  ///< dispatched and not yet left
  std::int64_t arrivals = 0;
};

struct RetailOptions {
  Span e2e;                ///< objective of every request
  double margin = 0.0;     ///< share of it kept in reserve, in [0, 1)
  double inflation = 0.0;  ///< predicted lengths are taken (1 + this) times as long
};

class RetailFleet {
 public:
  explicit RetailFleet(RetailOptions options);
  /// Errors are programming errors: clocks must ascend and not be empty.
  void add(InstanceId id, const RetailModel& model, std::vector<MegaHertz> clocks);
  [[nodiscard]] RetailDesk* desk(InstanceId id);
  [[nodiscard]] std::vector<std::unique_ptr<RetailDesk>>& desks() { return desks_; }
  [[nodiscard]] const RetailOptions& options() const { return options_; }
  /// What a request may take, after the margin.
  [[nodiscard]] double budget_seconds() const { return options_.e2e.seconds() * (1.0 - options_.margin); }

 private:
  RetailOptions options_;
  std::vector<std::unique_ptr<RetailDesk>> desks_;  ///< by instance id
};

/// Admits everything (the engine queues) and keeps the queue's books.
class RetailAdmission final : public AdmissionPolicy {
 public:
  explicit RetailAdmission(std::shared_ptr<RetailFleet> fleet) : fleet_(std::move(fleet)) {}
  AdmissionDecision admit(const Request&, const QueueView&, const FleetSnapshot&) override {
    return {Admission::Admit, "always"};
  }
  void started(const Request& request, const InstanceView& instance, Instant now) override;
  void observe(const Outcome& outcome, Instant now) override;

 private:
  std::shared_ptr<RetailFleet> fleet_;
};

/// Chooses when a request has arrived: the lowest clock at which every queued request's waiting time so far plus its
/// predicted latency is within the objective; the highest when none is, or telemetry is lost. Batch and KV cache are
/// taken as they are now. Needs a desk.
class RetailClock final : public FrequencyPolicy {
 public:
  RetailClock(std::shared_ptr<RetailFleet> fleet, InstanceId instance);
  ClockDecision choose(const InstanceView& view, const Beliefs& beliefs, Instant now) override;

 private:
  std::shared_ptr<RetailFleet> fleet_;
  RetailDesk& desk_;
  std::int64_t decided_for_ = -1;
  ClockDecision current_;
};

}  // namespace wattle::policy
