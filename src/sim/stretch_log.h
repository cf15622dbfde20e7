#pragma once
// Busy stretches for the journal: runs of steps of one batch at one clock.
#include <cstddef>
#include <vector>

#include "journal/record.h"
#include "model/instance.h"
#include "model/instance_index.h"

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
  /// It works no longer, for good; those behind it move up a position.
  void remove(std::size_t i) { erase_at(stretches_, i); }

  [[nodiscard]] std::size_t size() const { return stretches_.size(); }

 private:
  journal::Sink& sink_;
  std::vector<journal::Stretch> stretches_;
};

}  // namespace wattle::sim
