#include "node/node_budget.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace wattle::node {

using Group = policy::WattBudget::Group;

NodeBudget::NodeBudget(std::span<const Group> gpus, std::span<const std::vector<std::size_t>> of_engines)
    : group_of_(gpus.size()), group_of_engine_(of_engines.size()), idle_for_(of_engines.size()), budget_({}) {
  std::iota(group_of_.begin(), group_of_.end(), std::size_t{0});
  for (const auto& engine : of_engines) {
    for (const std::size_t gpu : engine) {  // joins the two groups
      const std::size_t from = group_of_[gpu];
      const std::size_t to = group_of_[engine.front()];
      std::ranges::replace(group_of_, from, to);
    }
  }
  std::vector<std::size_t> numbers(gpus.size(), gpus.size());  // without holes
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const std::size_t name = group_of_[gpu];
    if (numbers[name] == gpus.size()) {
      numbers[name] = groups_.size();
      groups_.push_back(gpus[gpu]);
      groups_.back().most = Milliwatts();
    }
    Group& group = groups_[group_of_[gpu] = numbers[name]];
    // A group runs at the clock of its slowest GPU; a GPU without known clocks makes the group's unknown.
    const bool known = group.lowest != MegaHertz(0) && gpus[gpu].lowest != MegaHertz(0);
    group.lowest = known ? std::max(group.lowest, gpus[gpu].lowest) : MegaHertz(0);
    group.highest = known ? std::max(group.highest, gpus[gpu].highest) : MegaHertz(0);
    group.most = Milliwatts(group.most.value() + gpus[gpu].most.value());
  }
  for (std::size_t e = 0; e < of_engines.size(); ++e) group_of_engine_[e] = group_of_[of_engines[e].front()];
  budget_ = policy::WattBudget(groups_);
}

bool NodeBudget::decide(std::span<const Reading> gpus, const std::vector<bool>& idle, Instant now) {
  if (now < budget_.next()) return false;
  std::vector<policy::WattBudget::Reading> readings(groups_.size(), {Milliwatts(), MegaHertz(0), true});
  std::vector<bool> said(groups_.size(), true);
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    auto& group = readings[group_of_[gpu]];
    const bool whole = group.power && gpus[gpu].power;
    group.power = whole ? std::optional(Milliwatts(group.power->value() + gpus[gpu].power->value())) : std::nullopt;
    group.wanted = std::max(group.wanted, gpus[gpu].wanted);
    if (gpus[gpu].wanted == MegaHertz(0)) said[group_of_[gpu]] = false;
  }
  for (std::size_t e = 0; e < idle_for_.size(); ++e) {
    idle_for_[e] = idle[e] ? idle_for_[e] + 1 : 0;
    if (idle_for_[e] < kIdlePeriods) readings[group_of_engine_[e]].slack = false;
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!said[g]) readings[g].wanted = MegaHertz(0);
  }
  return budget_.decide(readings, now);
}

MegaHertz NodeBudget::ceiling(std::size_t gpu) const {
  const MegaHertz ceiling = budget_.ceiling(group_of_[gpu]);
  return ceiling < highest(gpu) ? ceiling : MegaHertz(0);
}

}  // namespace wattle::node
