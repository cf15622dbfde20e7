#pragma once
// A budget for what the GPUs of a node draw together, kept by ceilings on their clocks.
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
  double over = 0.98;             ///< from this share of the budget on, ceilings fall
  double aim = 0.95;              ///< to what is predicted to draw this share
  double under = 0.91;            ///< below this share they rise, ...
  std::int32_t calm = 4;          ///< ... once that has lasted for so many periods
  std::int32_t blind_after = 3;   ///< periods for which a reading that fails is taken to be as it was
  std::int32_t reach_within = 8;  ///< periods at the lowest ceilings and over the budget: it cannot be kept
};

/// One number for all, the level, so that what is drawn rises with it whatever the GPUs do. From 1 down to 0 it is the
/// share of each group's range of clocks that is allowed to it: those that want less than that keep what they want, and
/// what they leave is the others' (max-min fairness). From 2 down to 1 only groups with slack, which have nothing to
/// do, are lowered; they rise last.
///
/// Over the budget the level falls to where draws that go with the clock (too optimistic where memory binds) are
/// predicted to fit, by at least a step of 1/40 that doubles with each period over: after 7 periods, whatever the GPUs'
/// power does with their clocks, it is at 0. It rises to where draws that go with the cube of the clock (the steepest:
/// voltage falls with frequency) are predicted to fit, so that a rise does not overshoot. Draws between `under` and
/// `over` change nothing: that is the hysteresis.
///
/// A group that cannot be read counts as it was last read, then as what it may draw at most, and nothing rises.
class WattBudget {
 public:
  /// GPUs that share one clock: those of engines that have a GPU in common.
  struct Group {
    MegaHertz lowest{0};   ///< its ceiling falls to that; 0: its clock is not to be had, it only counts
    MegaHertz highest{0};  ///< no ceiling
    Milliwatts most{};     ///< that it may draw; 0: not known
  };
  struct Reading {
    std::optional<Milliwatts> power;  ///< mean since the last decision; none: it could not be read
    MegaHertz wanted{0};              ///< clock that it would run at but for its ceiling; 0: its highest
    bool slack = false;               ///< it has nothing to do
  };
  enum class State : std::uint8_t {
    Unbounded,    ///< no budget
    Kept,         ///< not above it
    Over,         ///< above it, and ceilings are falling
    Unreachable,  ///< above it with every ceiling at the lowest, for reach_within periods
  };

  explicit WattBudget(std::vector<Group> groups, const WattBudgetOptions& options = {});

  /// None: no budget, and every ceiling is the highest at once. Else the next decision, a period from
  /// now, is the first by it.
  void set(std::optional<Milliwatts> budget, Instant now);
  /// The groups in their order. Does nothing before next(). True: a ceiling has changed.
  bool decide(std::span<const Reading> readings, Instant now);
  /// When to decide next; never(): there is no budget.
  [[nodiscard]] Instant next() const { return budget_ ? next_ : Instant::never(); }

  [[nodiscard]] std::optional<Milliwatts> budget() const { return budget_; }
  [[nodiscard]] MegaHertz ceiling(std::size_t group) const { return ceilings_[group]; }
  /// Some ceiling is below the highest.
  [[nodiscard]] bool binds() const;
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] double level() const { return level_; }            ///< 0 to 2
  [[nodiscard]] Milliwatts drawn() const { return drawn_; }        ///< all groups at the last decision
  [[nodiscard]] std::int64_t over() const { return over_; }        ///< decisions that found more than the budget
  [[nodiscard]] std::int64_t blind() const { return blind_; }      ///< readings that failed
  [[nodiscard]] std::int64_t lowered() const { return lowered_; }  ///< times the level fell

 private:
  struct Seen {
    Milliwatts power;
    MegaHertz wanted{0};
    bool slack = false;
    std::int32_t failed = 0;  ///< readings in a row
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
  std::int32_t falling_ = 0;  ///< decisions in a row that lowered
  std::int32_t calm_ = 0;     ///< in a row that were under
  std::int32_t stuck_ = 0;    ///< in a row at level 0 and over the budget
  std::int64_t over_ = 0;
  std::int64_t blind_ = 0;
  std::int64_t lowered_ = 0;
};

}  // namespace wattle::policy
