#include "policy/frequency/watt_budget.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace wattle::policy {

namespace {
constexpr double kHighestLevel = 2.0;
constexpr double kStep = 1.0 / 40.0;     ///< of the level; two steps of a GPU that has 80
constexpr double kLargestRise = 0.25;    ///< of the level, in one period
constexpr int kBisections = 24;          ///< of the level, to a ten-millionth
constexpr std::int32_t kDoublings = 10;  ///< more would be no larger step

[[nodiscard]] double share_of(MegaHertz clock, const WattBudget::Group& group) {
  const double range = group.highest.value() - group.lowest.value();
  return range <= 0.0 ? 1.0 : std::clamp((clock.value() - group.lowest.value()) / range, 0.0, 1.0);
}
}  // namespace

WattBudget::WattBudget(std::vector<Group> groups, const WattBudgetOptions& options)
    : options_(options), groups_(std::move(groups)), seen_(groups_.size()) {
  for (const Group& group : groups_) ceilings_.push_back(group.highest);
}

void WattBudget::set(std::optional<Milliwatts> budget, Instant now) {
  budget_ = budget;
  next_ = now + options_.period;
  falling_ = calm_ = stuck_ = 0;
  state_ = budget ? State::Kept : State::Unbounded;
  if (budget) return;
  level_ = kHighestLevel;
  (void)apply();
}

bool WattBudget::binds() const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (ceilings_[g] < groups_[g].highest) return true;
  }
  return false;
}

MegaHertz WattBudget::ceiling_at(std::size_t group, double level) const {
  const Group& g = groups_[group];
  if (g.lowest == MegaHertz(0)) return g.highest;
  const double share = std::clamp(seen_[group].slack ? level - 1.0 : level, 0.0, 1.0);
  return MegaHertz(g.lowest.value() + static_cast<std::int32_t>(share * (g.highest.value() - g.lowest.value()) + 1e-6));
}

MegaHertz WattBudget::runs_at(std::size_t group, double level) const {
  return std::min(ceiling_at(group, level), seen_[group].wanted);
}

/// Takes over the readings. False: a group is without a usable reading.
bool WattBudget::look(std::span<const Reading> readings) {
  bool clear = true;
  drawn_ = Milliwatts();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Seen& seen = seen_[g];
    const Reading& reading = readings[g];
    const Group& group = groups_[g];
    // A group at its ceiling may want more: its reading shows no clock above the ceiling.
    const bool held = reading.wanted == MegaHertz(0) || reading.wanted >= ceilings_[g];
    seen.wanted = held ? group.highest : reading.wanted;
    seen.slack = reading.slack;
    if (reading.power) {
      seen.power = *reading.power;
      seen.failed = 0;
    } else {
      clear = false;
      ++blind_;
      ++seen.failed;
      if (seen.failed > options_.blind_after) seen.power = std::max(seen.power, group.most);
    }
    drawn_ = Milliwatts(drawn_.value() + seen.power.value());
  }
  return clear;
}

/// The lowest level at which no ceiling lowers a clock: above it, power does not change.
double WattBudget::needed() const {
  double level = 0.0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].lowest == MegaHertz(0)) continue;
    const double share = share_of(seen_[g].wanted, groups_[g]);
    level = std::max(level, seen_[g].slack && share > 0.0 ? 1.0 + share : share);
  }
  return level;
}

/// Predicted power of all groups at another level, if it follows the clock to this power; idle groups keep their power.
double WattBudget::predicted_mw(double level, int exponent) const {
  double sum = 0.0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const double now = runs_at(g, level_).value();
    const double then = runs_at(g, level).value();
    const double ratio = now <= 0.0 || seen_[g].slack ? 1.0 : then / now;
    sum += static_cast<double>(seen_[g].power.value()) * (exponent == 1 ? ratio : ratio * ratio * ratio);
  }
  return sum;
}

double WattBudget::highest_within(double least, double most, double target_mw, int exponent) const {
  if (predicted_mw(most, exponent) <= target_mw) return most;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = 0.5 * (least + most);
    (predicted_mw(middle, exponent) <= target_mw ? least : most) = middle;
  }
  return least;
}

void WattBudget::lower(double budget_mw) {
  const double from = std::min(level_, needed());
  const double step = kStep * std::ldexp(1.0, std::min(falling_, kDoublings));
  ++falling_;
  const double to = std::max(0.0, std::min(highest_within(0.0, from, options_.aim * budget_mw, 1), from - step));
  if (to < level_) ++lowered_;
  level_ = to;
}

void WattBudget::restore(double budget_mw) {
  const double most = std::min(kHighestLevel, level_ + kLargestRise);
  const double to = highest_within(level_, most, options_.aim * budget_mw, 3);
  level_ = to;
}

bool WattBudget::apply() {
  bool changed = false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const MegaHertz ceiling = ceiling_at(g, level_);
    changed = changed || ceiling != ceilings_[g];
    ceilings_[g] = ceiling;
  }
  return changed;
}

bool WattBudget::decide(std::span<const Reading> readings, Instant now) {
  if (!budget_ || now < next_ || readings.size() != groups_.size()) return false;
  next_ = now + options_.period;
  const bool clear = look(readings);
  const auto budget_mw = static_cast<double>(budget_->value());
  const auto drawn_mw = static_cast<double>(drawn_.value());
  if (drawn_ > *budget_) ++over_;
  calm_ = clear && drawn_mw < options_.under * budget_mw ? calm_ + 1 : 0;
  stuck_ = level_ <= 0.0 && drawn_ > *budget_ ? stuck_ + 1 : 0;
  if (drawn_mw > options_.over * budget_mw) {
    lower(budget_mw);
  } else {
    falling_ = 0;
    if (calm_ >= options_.calm && level_ < kHighestLevel) restore(budget_mw);
  }
  state_ = drawn_ <= *budget_ ? State::Kept : stuck_ >= options_.reach_within ? State::Unreachable : State::Over;
  return apply();
}

}  // namespace wattle::policy
