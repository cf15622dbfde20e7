#pragma once
// The use of each instance's GPUs over its life: for how long, and at which clock.
#include <cstddef>
#include <vector>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::sim {

class Lives {
 public:
  /// The next instance begins; call before its engine starts, which reports the first clock.
  void add(Instant now) { lives_.emplace_back().begun = now; }
  /// From now on its GPUs belong to another instance.
  void end(std::size_t i, Instant now);
  [[nodiscard]] bool gone(std::size_t i) const { return lives_[i].gone != Instant::never(); }

  /// It runs at this clock from now on.
  void clock_is(std::size_t i, MegaHertz clock, Instant at) {
    Life& life = lives_[i];
    if (clock == life.clock) return;
    life.mhz_seconds += life.clock.value() * (at - life.clock_since).seconds();
    life.clock = clock;
    life.clock_since = at;
  }

  /// It has ended; later ones move up a position.
  void remove(std::size_t i);

  /// Totals over all instances so far, including ended ones: lifetime, and the integral of the clock over it.
  struct Sum {
    double seconds = 0.0;
    double mhz_seconds = 0.0;
  };
  [[nodiscard]] Sum sum(Instant end) const;

  [[nodiscard]] std::size_t size() const { return lives_.size(); }

 private:
  struct Life {
    Instant begun;
    Instant gone = Instant::never();
    MegaHertz clock;
    Instant clock_since;
    double mhz_seconds = 0.0;
  };
  static void add(const Life& life, Instant end, Sum& sum);

  std::vector<Life> lives_;
  Sum gone_;
};

}  // namespace wattle::sim
