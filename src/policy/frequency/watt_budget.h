#pragma once
// A power budget for all GPUs of a node, enforced by upper bounds (ceilings) on their clocks.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "units/quantity.h"
#include "units/time.h"

namespace wattle::policy {

struct WattBudgetOptions {
  Span period = Span::s(1);       ///< between two decisions
  double over = 0.98;             ///< ceilings fall above this share of the budget
  double aim = 0.95;              ///< target of the predicted power, as a share of the budget
  double under = 0.91;            ///< ceilings rise below this share, ...
  std::int32_t calm = 4;          ///< ... after this many periods
  std::int32_t blind_after = 3;   ///< number of periods for which the last value replaces a failed reading
  std::int32_t reach_within = 8;  ///< periods over the budget at the lowest ceilings until it is unreachable
};

/// All ceilings follow from one number, the level, so that the total power rises with it whatever the GPUs do. From 1
/// down to 0 it is the share of its clock range that each group may use: groups that want less keep what they want, and
/// the others share what is left (max-min fairness). From 2 down to 1 only groups with slack (without work) are
/// lowered; they rise last.
///
/// Over the budget, the level falls to where power proportional to the clock (too optimistic if memory-bound) is
/// predicted to fit, and by at least a step of 1/40 that doubles with each period over the budget: after 7 periods it
/// is at 0, however power depends on the clock. It rises to where power proportional to the cube of the clock (the
/// steepest case, as voltage falls with frequency) is predicted to fit, so that it does not overshoot. Between `under`
/// and `over` nothing changes: that is the hysteresis.
///
/// A group that cannot be read counts with its last value, later with its highest possible power, and nothing rises.
class WattBudget {
 public:
  /// GPUs that share one clock, because engines have GPUs in common.
  struct Group {
    MegaHertz lowest{0};   ///< lower end of its ceiling; 0: its clock cannot be set, its power only counts
    MegaHertz highest{0};  ///< no limit
    Milliwatts most{};     ///< highest possible power; 0: unknown
  };
  struct Reading {
    std::optional<Milliwatts> power;  ///< mean since the last decision; none: reading failed
    MegaHertz wanted{0};              ///< clock without a ceiling; 0: its highest
    bool slack = false;               ///< no work
  };
  enum class State : std::uint8_t {
    Unbounded,    ///< no budget
    Kept,         ///< power is within the budget
    Over,         ///< power is above the budget, and ceilings are falling
    Unreachable,  ///< power has been above the budget at the lowest ceilings for reach_within periods
  };

  explicit WattBudget(std::vector<Group> groups, const WattBudgetOptions& options = {});

  /// None: no budget, and every ceiling is the highest at once. Otherwise the first decision is made one period from
  /// now.
  void set(std::optional<Milliwatts> budget, Instant now);
  /// `readings`: by group. Does nothing before next(). True: a ceiling has changed.
  bool decide(std::span<const Reading> readings, Instant now);
  /// Time of the next decision; never(): no budget.
  [[nodiscard]] Instant next() const { return budget_ ? next_ : Instant::never(); }

  [[nodiscard]] std::optional<Milliwatts> budget() const { return budget_; }
  [[nodiscard]] MegaHertz ceiling(std::size_t group) const { return ceilings_[group]; }
  /// Some ceiling is below the highest.
  [[nodiscard]] bool binds() const;
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] double level() const { return level_; }            ///< 0 to 2
  [[nodiscard]] Milliwatts drawn() const { return drawn_; }        ///< power of all groups at the last decision
  [[nodiscard]] std::int64_t over() const { return over_; }        ///< number of decisions with power above the budget
  [[nodiscard]] std::int64_t blind() const { return blind_; }      ///< number of failed readings
  [[nodiscard]] std::int64_t lowered() const { return lowered_; }  ///< number of times the level fell

 private:
  struct Seen {
    Milliwatts power;
    MegaHertz wanted{0};
    bool slack = false;
    std::int32_t failed = 0;  ///< consecutive failed readings
  };
  bool look(std::span<const Reading> readings);
  [[nodiscard]] MegaHertz ceiling_at(std::size_t group, double level) const;
  [[nodiscard]] MegaHertz runs_at(std::size_t group, double level) const;
  [[nodiscard]] double needed() const;
  [[nodiscard]] double predicted_mw(double level, int exponent) const;
  [[nodiscard]] double highest_within(double least, double most, double target_mw, int exponent) const;
  void lower(double budget_mw);
  void restore(double budget_mw);
  bool apply();

  WattBudgetOptions options_;
  std::vector<Group> groups_;
  std::vector<Seen> seen_;
  std::vector<MegaHertz> ceilings_;
  std::optional<Milliwatts> budget_;
  Instant next_;
  double level_ = 2.0;
  State state_ = State::Unbounded;
  Milliwatts drawn_;
  std::int32_t falling_ = 0;  ///< consecutive decisions that lowered the level
  std::int32_t calm_ = 0;     ///< consecutive decisions below `under`
  std::int32_t stuck_ = 0;    ///< consecutive decisions at level 0 and above the budget
  std::int64_t over_ = 0;
  std::int64_t blind_ = 0;
  std::int64_t lowered_ = 0;
};

}  // namespace wattle::policy
