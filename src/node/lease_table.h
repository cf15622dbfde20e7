#pragma once
// Clocks that are decided elsewhere: at the gateway, for recipes whose clock shares a projection with admission. Each
// has a lease; when it expires, the clock returns to the maximum, so that a dead gateway costs energy, not latency.
#include <cstdint>
#include <vector>

#include "control/ports.h"
#include "units/quantity.h"
#include "units/time.h"

namespace wattle::node {

class LeaseTable {
 public:
  struct Counts {
    std::int64_t granted = 0;
    std::int64_t expired = 0;
  };

  explicit LeaseTable(control::ClockPort& port) : port_(port) {}
  /// This instance's clock is leased from now on; `fallback` until the first lease.
  void add(InstanceId instance, MegaHertz fallback, Instant now);
  /// False: the instance is not in this table.
  bool grant(InstanceId instance, MegaHertz clock, Span lease, Instant now);
  /// Ends its lease: back to the fallback.
  void revoke(InstanceId instance, Instant now);
  /// Ends expired leases. Call at next_tick() or slightly later.
  void tick(Instant now);
  [[nodiscard]] Instant next_tick() const;
  /// Newest command; 0: not in this table.
  [[nodiscard]] MegaHertz commanded(InstanceId instance) const;
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Slot {
    InstanceId instance;
    MegaHertz fallback;
    MegaHertz commanded;
    Instant until = Instant::never();  ///< never: at the fallback
  };
  void command(Slot& slot, MegaHertz clock, Instant now);

  control::ClockPort& port_;
  std::vector<Slot> slots_;
  Counts counts_;
};

}  // namespace wattle::node
