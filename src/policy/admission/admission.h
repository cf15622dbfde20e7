#pragma once
#include "model/decision.h"
#include "model/instance.h"
#include "model/outcome.h"
#include "model/request.h"

namespace wattle::policy {

/// What admission may see of the gateway's own queue. The request asked about is in neither count.
struct QueueView {
  std::int64_t held_requests = 0;
  std::int64_t in_flight_requests = 0;  ///< dispatched, not yet left
};

/// May this request enter? Asked on arrival, and again for held requests whenever something leaves.
class AdmissionPolicy {
 public:
  virtual ~AdmissionPolicy() = default;
  virtual AdmissionDecision admit(const Request& request, const QueueView& queue, const FleetSnapshot& fleet) = 0;
  /// It is about to start its first leg at this instance, whoever chose that. Called in shadow mode too, like the rest.
  virtual void started(const Request& request, const InstanceView& instance, Instant now) {
    (void)request;
    (void)instance;
    (void)now;
  }
  /// Its first token came out of the step in instance.step.
  virtual void first_token(const Request& request, const InstanceView& instance, Instant now) {
    (void)request;
    (void)instance;
    (void)now;
  }
  /// It has left.
  virtual void observe(const Outcome& outcome, Instant now) {
    (void)outcome;
    (void)now;
  }
};

}  // namespace wattle::policy
