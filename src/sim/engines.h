#pragma once
// The simulated engines, and when each has its next event.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/replica.h"
#include "model/instance_index.h"
#include "sim/wake_tree.h"

namespace wattle::sim {

class Engines {
 public:
  explicit Engines(std::size_t expected) : wakes_(expected) { replicas_.reserve(expected); }

  template <typename... Arguments>
  void add(Arguments&&... arguments) {
    replicas_.push_back(std::make_unique<engine::Replica>(std::forward<Arguments>(arguments)...));
  }
  /// Removes an engine for good; later ones move up a position.
  void remove(std::size_t i) {
    iterations_of_gone_ += replicas_[i]->iterations();
    erase_at(replicas_, i);
    wakes_.remove(i);
  }
  /// Totals over all engines, including removed ones.
  [[nodiscard]] std::int64_t iterations() const {
    std::int64_t all = iterations_of_gone_;
    for (const auto& replica : replicas_) all += replica->iterations();
    return all;
  }
  /// Reserves room for one more than expected; before add().
  void grow() { wakes_.grow(replicas_.size() + 1); }

  [[nodiscard]] engine::Replica& operator[](std::size_t i) { return *replicas_[i]; }
  [[nodiscard]] const engine::Replica& operator[](std::size_t i) const { return *replicas_[i]; }
  [[nodiscard]] std::size_t size() const { return replicas_.size(); }

  /// Call after anything that may have changed the time of its next event. Does nothing for an engine that has not
  /// started.
  void wake(std::size_t i) {
    if (i < replicas_.size()) wakes_.set(i, replicas_[i]->next_wake());
  }
  /// Interrupts its run of steps, so that the policy is asked again.
  void interrupt(std::size_t i, Instant now) {
    replicas_[i]->interrupt(now);
    wake(i);
  }
  [[nodiscard]] Instant next_wake() const { return wakes_.at(); }
  [[nodiscard]] std::size_t first() const { return wakes_.first(); }

 private:
  std::vector<std::unique_ptr<engine::Replica>> replicas_;
  std::int64_t iterations_of_gone_ = 0;
  WakeTree wakes_;
};

}  // namespace wattle::sim
