#pragma once
#include "model/event.h"

namespace wattle::policy {

/// What all policies are. One object may fill several slots of a fleet; it then hears of each event once.
class Policy {
 public:
  virtual ~Policy() = default;
  /// What it wants to hear of; asked once, before the first instance joins.
  [[nodiscard]] virtual EventKinds observes() const { return {}; }
  /// Does it look at InstanceView::step, telemetry or clock_commanded? They need not be up to date for one that does
  /// not.
  [[nodiscard]] virtual bool reads_steps() const { return true; }
  /// Called in shadow mode, too.
  virtual void observe(const Event& event, Instant now) {
    (void)event;
    (void)now;
  }
};

}  // namespace wattle::policy
