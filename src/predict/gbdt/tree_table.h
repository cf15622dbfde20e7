#pragma once
// Boosted trees as one table.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "predict/gbdt/trees.h"
#include "units/time.h"

namespace wattle::predict {

/// An ensemble is constant between thresholds, so all of it is one table over the cells they cut: an answer is three
/// short searches and one load. Exact but for one thing: trees need not be monotone in the last feature, as
/// LatencyModel promises for KV tokens; each row takes the middle of its running maximum and its running minimum from
/// the far end, which is. Sums are of doubles, where XGBoost adds floats.
class TreeTable {
 public:
  /// What the trees' sum is.
  enum class Target : std::uint8_t {
    Milliseconds,  ///< of an iteration
    Rate,          ///< iterations per second (throttLL'eM's M); at or below 0: longer than anyone believes
  };
  static constexpr std::size_t kMostCells = std::size_t{1} << 22;

  /// Errors: more than 4 Mi cells (thresholds are too many: train with histogram bins).
  [[nodiscard]] static Result<TreeTable> make(const GbdtTrees& trees, bool monotone,
                                              Target target = Target::Milliseconds);

  /// The cells of all values of the third feature, shortest time first, in ns.
  [[nodiscard]] const std::int64_t* row(float clock, float second) const;
  /// at() for many at one clock, neighbours near each other; all of one size.
  void many(float clock, std::span<const std::int32_t> second, std::span<const std::int64_t> third,
            std::span<Span> out) const;
  [[nodiscard]] std::int64_t at(float clock, float second, float third) const;
  /// Of the third feature: cell i of a row holds [thresholds[i-1], thresholds[i]).
  [[nodiscard]] const std::vector<float>& thresholds() const { return third_; }
  [[nodiscard]] const std::vector<float>& second_thresholds() const { return second_; }
  [[nodiscard]] std::size_t cells() const { return table_.size(); }

 private:
  std::vector<float> clock_;  ///< thresholds, ascending, of each feature
  std::vector<float> second_;
  std::vector<float> third_;
  std::vector<std::int64_t> table_;  ///< ns, [clock][second][third]
};

/// Milliseconds in ns, kept where sums of a few stay within 64 bits.
[[nodiscard]] std::int64_t ns_of_ms(double ms);

}  // namespace wattle::predict
