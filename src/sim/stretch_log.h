#pragma once
// Busy stretches for the journal: runs of steps of one batch at one clock.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "journal/record.h"
#include "model/instance.h"
#include "model/instance_index.h"

namespace wattle::sim {

class StretchLog {
 public:
  /// `sink` outlives this.
  explicit StretchLog(journal::Sink& sink) : sink_(sink) {}
  void add() { open_.emplace_back(); }
  /// A step of instance `i` starts at this clock, after so many since the instance began. Steps that are simulated
  /// together with this one are not announced.
  void step(std::size_t i, const StepReport& report, MegaHertz clock, std::int64_t before);
  /// It works no longer, after so many steps.
  void close(std::size_t i, Instant at, std::int64_t ended);
  /// It works no longer, for good; those behind it move up a position.
  void remove(std::size_t i) { erase_at(open_, i); }

  [[nodiscard]] std::size_t size() const { return open_.size(); }

 private:
  struct Open {
    journal::Stretch stretch;
    std::optional<std::int64_t> first;  ///< steps before it; none: it does not work
  };

  journal::Sink& sink_;
  std::vector<Open> open_;
};

}  // namespace wattle::sim
