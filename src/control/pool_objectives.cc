#include "control/pool_objectives.h"

#include <algorithm>

#include "model/instance_index.h"

namespace wattle::control {

PoolObjectives::PoolObjectives(const Objectives& all, const Classifier& classes, const AnswerOptions& answers)
    : answers_(answers), tiers_(std::max<std::size_t>(all.tiers().size(), 1)) {
  sort_by(all, classes);
}

void PoolObjectives::sort_by(const Objectives& all, const Classifier& classes) {
  ranks_.clear();
  for (std::size_t t = 0; t < tiers_; ++t) {
    ranks_.push_back(classes.tier_rank(TierId(static_cast<std::int32_t>(t))));
  }
  by_rank_.clear();
  for (std::int32_t rank = 0; rank < classes.tiers(); ++rank) {
    by_rank_.push_back(answers_.aims(all.up_to(classes, rank).strictest()));
  }
  limits_.resize(by_rank_.size(), Span::max());
}

void PoolObjectives::add(std::int32_t rank) {
  Instance& made = instances_.emplace_back(Instance{rank});
  if (tiers_ > 1) made.there.resize(tiers_);
  update(made);
}

void PoolObjectives::remove(std::size_t i) { erase_at(instances_, i); }

bool PoolObjectives::serves(std::size_t i, std::int32_t rank) {
  instances_[i].pool = rank;
  return update(instances_[i]);
}

bool PoolObjectives::count(std::size_t i, TierId tier, int sign) {
  if (tiers_ < 2) return false;
  const auto t = static_cast<std::size_t>(std::max(tier.value(), 0));
  std::int32_t& there = instances_[i].there[t < tiers_ ? t : 0];  // as Classifier::tier_rank has it
  there += sign;
  const bool first_or_last = there == 0 || (there == 1 && sign > 0);
  return first_or_last && update(instances_[i]);
}

bool PoolObjectives::update(Instance& instance) const {
  std::int32_t rank = instance.pool;
  for (std::size_t t = 0; t < instance.there.size(); ++t) {
    if (instance.there[t] > 0) rank = std::max(rank, ranks_[t]);
  }
  const auto r = static_cast<std::size_t>(std::clamp(rank, 0, ranks() - 1));
  Slo keeps = by_rank_[r];
  if (limits_[r] < keeps.tbt.value_or(Span::max())) {
    keeps.tbt = limits_[r];
    keeps.tbt_of_answers = true;
  }
  if (keeps == instance.keeps) return false;
  instance.keeps = keeps;
  return true;
}

}  // namespace wattle::control
