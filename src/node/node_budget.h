#pragma once
// The watt budget of this node's GPUs: which of them share a clock, and their readings. policy::WattBudget decides.
// Pure.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "policy/frequency/watt_budget.h"

namespace wattle::node {

class NodeBudget {
 public:
  struct Reading {
    std::optional<Milliwatts> power;  ///< mean since the last decision; none: it could not be read
    MegaHertz wanted{0};              ///< newest clock at which it should run; 0: not set
  };
  NodeBudget() : budget_({}) {}
  /// GPUs by number, and those of each engine; engines with a common GPU share a clock.
  NodeBudget(std::span<const policy::WattBudget::Group> gpus, std::span<const std::vector<std::size_t>> of_engines);

  void set(std::optional<Milliwatts> budget, Instant now) { budget_.set(budget, now); }
  /// Once a period: readings by GPU; `idle`: by engine, whether it is known to be idle. Returns whether a ceiling has
  /// changed.
  bool decide(std::span<const Reading> gpus, const std::vector<bool>& idle, Instant now);
  /// Ceiling of a GPU; 0: none.
  [[nodiscard]] MegaHertz ceiling(std::size_t gpu) const;
  /// Its highest clock; 0: unknown.
  [[nodiscard]] MegaHertz highest(std::size_t gpu) const { return groups_[group_of_[gpu]].highest; }
  [[nodiscard]] const policy::WattBudget& state() const { return budget_; }

 private:
  /// Number of consecutive decisions for which an engine must be idle before its GPUs have slack: pauses between
  /// requests do not count.
  static constexpr std::int32_t kIdlePeriods = 3;

  std::vector<std::size_t> group_of_;  ///< by GPU
  std::vector<std::size_t> group_of_engine_;
  std::vector<std::int32_t> idle_for_;  ///< periods, by engine
  std::vector<policy::WattBudget::Group> groups_;
  policy::WattBudget budget_;
};

}  // namespace wattle::node
