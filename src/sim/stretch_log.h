#pragma once
// Busy stretches for the journal: runs of steps of one batch at one clock.
#include <cstddef>
#include <vector>

#include "journal/record.h"
#include "model/instance.h"

namespace wattle::sim {

class StretchLog {
 public:
  /// `sink` outlives this.
  explicit StretchLog(journal::Sink& sink) : sink_(sink) {}
  void add() { stretches_.emplace_back(); }
  /// A step of instance `i` starts at this clock.
  void step(std::size_t i, const StepReport& report, MegaHertz clock);
  /// It works no longer.
  void close(std::size_t i, Instant at);
  void close_all(Instant at);

 private:
  journal::Sink& sink_;
  std::vector<journal::Stretch> stretches_;
};

}  // namespace wattle::sim
