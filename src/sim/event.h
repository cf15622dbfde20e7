#pragma once
// What happens in a simulation beside steps, plans, arrivals and samples.
#include <cstdint>

#include "engine/replica.h"
#include "model/instance.h"
#include "units/time.h"

namespace wattle::sim {

/// Things that happen at one instant happen in this order. Steps end before all of them, so that an arrival sees the
/// batch without those that just left; a fault hits what the steps left; then what the control plane notices; then the
/// fleet is planned, requests arrive, and samples look last.
enum class EventClass : std::uint8_t {
  Travelled,
  Transfer,
  Handed,
  Fault,
  Recovery,
  NodeFault,
  NodeRecovery,
  Hot,
  Cooled,
  Loaded,
  Warm,
  Overrun,
  Silence,
  Heartbeat,
  Look,
  IdleAsk,
  Refitted
};

/// Everything but steps, plans, arrivals and samples: rare, so a heap.
struct Event {
  Instant at;
  EventClass event_class;
  std::int64_t sequence;
  engine::Tag tag = 0;
  std::uint32_t life = 0;
  InstanceId instance;
  Span down;
  std::int64_t step = 0;  ///< Overrun: which of the run; Silence: its number; Heartbeat: the number of the idle report
  NodeId node{};          ///< NodeFault and NodeRecovery
  double clock_share = 0.0;  ///< Hot, NodeFault: Fault::clock_share; 0: none
  bool operator>(const Event& o) const {
    if (at != o.at) return at > o.at;
    if (event_class != o.event_class) return event_class > o.event_class;
    return sequence > o.sequence;
  }
};

}  // namespace wattle::sim
