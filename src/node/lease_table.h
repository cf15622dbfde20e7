#pragma once
// Clocks that somebody else decides: the gateway, for recipes whose clock shares a projection with admission. Each
// comes with a lease; one that ends unrenewed falls back to the maximum, so that a dead gateway costs energy and not
// latency.
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
  /// This instance's clock is leased from now on; `fallback` until somebody takes it.
  void add(InstanceId instance, MegaHertz fallback, Instant now);
  /// False: not an instance of this table.
  bool grant(InstanceId instance, MegaHertz clock, Span lease, Instant now);
  /// Ends what is over. Call at next_tick() or a little later.
  void tick(Instant now);
  [[nodiscard]] Instant next_tick() const;
  /// Newest command; 0: not of this table.
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
