#pragma once
// Events of a fleet, as policies observe them. References are valid during the call only.
#include <cstdint>
#include <type_traits>
#include <variant>

#include "model/instance.h"
#include "model/outcome.h"
#include "model/request.h"

namespace wattle {

namespace event {

/// The instance is part of the fleet now, though it may not accept requests yet. Instances that exist at the start join
/// then.
struct Joined {
  const InstanceView& instance;
};
/// The instance is gone for good; its id is never used again.
struct Gone {
  const InstanceView& instance;
};
/// A request has arrived: before admission is asked, with its length predicted.
struct Arrived {
  const Request& request;
};
/// The request is about to start its first leg at this instance, whichever policy chose it.
struct Started {
  const Request& request;
  const InstanceView& instance;
};
/// The request's first token came from the step in instance.step.
struct FirstToken {
  const Request& request;
  const InstanceView& instance;
};
/// The request's first token came from this decode instance, its prompt having been computed by another one.
struct HandedOver {
  const Request& request;
  const InstanceView& instance;
  Span age;   ///< from its arrival until its prompt was computed
  Span wait;  ///< from then on
};
/// An iteration starts: instance.step is its report. Only the instance's own clock policy observes it. A policy that
/// observes steps is asked at every step, whatever hold its decisions have.
struct Step {
  const InstanceView& instance;
};
/// A request that had been dispatched has left, whatever its fate.
struct Left {
  const Outcome& outcome;
};

}  // namespace event

using Event = std::variant<event::Joined, event::Gone, event::Arrived, event::Started, event::FirstToken,
                           event::HandedOver, event::Step, event::Left>;

/// A set of kinds of events.
class EventKinds {
 public:
  constexpr EventKinds() = default;
  /// The set of the given alternatives.
  template <typename... Kinds>
  [[nodiscard]] static constexpr EventKinds of() {
    EventKinds kinds;
    kinds.bits_ = (bit_of<Kinds>(static_cast<Event*>(nullptr)) | ...);
    return kinds;
  }
  [[nodiscard]] constexpr bool has(const Event& event) const { return (bits_ & (1U << event.index())) != 0; }

 private:
  template <typename Kind, typename... All>
  static constexpr std::uint32_t bit_of(std::variant<All...>*) {
    std::uint32_t bit = 1;
    (void)((std::is_same_v<Kind, All> || (bit <<= 1U, false)) || ...);
    return bit;
  }
  std::uint32_t bits_ = 0;
};

}  // namespace wattle
