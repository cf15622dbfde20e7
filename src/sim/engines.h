#pragma once
// The simulated engines and when each wants to be looked at.
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/replica.h"
#include "sim/wake_tree.h"

namespace wattle::sim {

class Engines {
 public:
  explicit Engines(std::size_t expected) : wakes_(expected) { replicas_.reserve(expected); }

  template <typename... Arguments>
  void add(Arguments&&... arguments) {
    replicas_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  /// Room for one more than was expected; before add().
  void grow() { wakes_.grow(replicas_.size() + 1); }

  [[nodiscard]] engine::Replica& operator[](std::size_t i) { return replicas_[i]; }
  [[nodiscard]] const engine::Replica& operator[](std::size_t i) const { return replicas_[i]; }
  [[nodiscard]] std::size_t size() const { return replicas_.size(); }

  /// After anything that may have changed when it next wants to be looked at. Not there yet: nothing to do.
  void wake(std::size_t i) {
    if (i < replicas_.size()) wakes_.set(i, replicas_[i].next_wake());
  }
  /// Breaks off its run: the policy is asked again.
  void interrupt(std::size_t i, Instant now) {
    replicas_[i].interrupt(now);
    wake(i);
  }
  [[nodiscard]] Instant next_wake() const { return wakes_.at(); }
  [[nodiscard]] std::size_t first() const { return wakes_.first(); }

 private:
  std::vector<engine::Replica> replicas_;
  WakeTree wakes_;
};

}  // namespace wattle::sim
