#pragma once
#include "model/event.h"

namespace wattle::policy {

/// Base of all policies. One object may fill several slots of a fleet; it then observes each event once.
class Policy {
 public:
  virtual ~Policy() = default;
  /// The kinds of events that it observes; asked once, before the first instance joins.
  [[nodiscard]] virtual EventKinds observes() const { return {}; }
  /// Whether it reads InstanceView::step, telemetry or clock_commanded. If not, they need not be up to date.
  [[nodiscard]] virtual bool reads_steps() const { return true; }
  /// Also called in shadow mode.
  virtual void observe(const Event& event, Instant now) {
    (void)event;
    (void)now;
  }
};

}  // namespace wattle::policy
