#pragma once
// What happens in a fleet, as policies hear of it. References are valid during the call alone.
#include <cstdint>
#include <type_traits>
#include <variant>

#include "model/instance.h"
#include "model/outcome.h"
#include "model/request.h"

namespace wattle {

namespace event {

/// It is part of the fleet now, though it may not accept requests yet. Instances that were there at the start join
/// then.
struct Joined {
  const InstanceView& instance;
};
/// It will never be heard of again, and its id never comes back.
struct Gone {
  const InstanceView& instance;
};
/// Before admission is asked. Length predictions are in.
struct Arrived {
  const Request& request;
};
/// It is about to start its first leg at this instance, whatever chose that.
struct Started {
  const Request& request;
  const InstanceView& instance;
};
/// Its first token came out of the step in instance.step.
struct FirstToken {
  const Request& request;
  const InstanceView& instance;
};
/// Its first token came from this decode instance.
struct HandedOver {
  const Request& request;
  const InstanceView& instance;
  Span age;   ///< from its arrival until its prompt was computed
  Span wait;  ///< from then on
};
/// An iteration starts: instance.step is its report. Only the instance's own clock policy hears of it, and of every
/// one: a policy that observes steps is asked at each, whatever it says of how long a decision holds.
struct Step {
  const InstanceView& instance;
};
/// It was dispatched once and has left, whatever its fate.
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
  /// Those of the alternatives given.
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
