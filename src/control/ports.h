#pragma once
// What the control loop asks of whoever drives it. sim/ and live/ implement these; neither knows the other.
#include "model/decision.h"
#include "model/request.h"
#include "units/quantity.h"

namespace wattle::control {

class DispatchPort {
 public:
  virtual ~DispatchPort() = default;
  /// Start the request's first leg (the only one when colocated) at this instance.
  virtual void start(const Request& request, InstanceId instance, Instant now) = 0;
  /// Prefill has ended; move the KV cache and go on at `decode`.
  virtual void hand_over(const Request& request, InstanceId prefill, InstanceId decode, Instant now) = 0;
  /// Tell the client no. The dispatcher has forgotten the request.
  virtual void refuse(const Request& request, const char* reason, Instant now) = 0;
};

class ClockPort {
 public:
  virtual ~ClockPort() = default;
  /// Lock the SM clock of all GPUs of the instance. Takes effect after a delay; the newest command wins.
  virtual void command(InstanceId instance, MegaHertz clock, Instant now) = 0;
};

}  // namespace wattle::control
