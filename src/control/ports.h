#pragma once
// What the control loop asks of whoever drives it. sim/ and live/ implement these; neither knows the other.
#include <cstddef>

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

/// Instances that come and go. Ids are the driver's and never reused.
class FleetPort {
 public:
  virtual ~FleetPort() = default;
  /// Starts an instance of this shape and says its id. Autoscaler::up() or died() follows, not from within this call.
  virtual InstanceId spawn(std::size_t shape, Instant now) = 0;
  /// Let it have requests: it is up, or is called back from draining. Autoscaler::serving() follows, maybe at once.
  virtual void open(InstanceId instance, Instant now) = 0;
  /// No new requests; those in it go on. Autoscaler::drained() follows, maybe at once.
  virtual void drain(InstanceId instance, Instant now) = 0;
  /// End it. It is empty, or has never served, or does not answer.
  virtual void stop(InstanceId instance, Instant now) = 0;
};

}  // namespace wattle::control
