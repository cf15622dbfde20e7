#pragma once
// Boosted trees as one table.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "predict/gbdt/trees.h"
#include "units/time.h"

namespace wattle::predict {

/// An ensemble is constant between thresholds, so it equals a table over the cells between them: a prediction is three
/// short searches and one load. Exact, except that trees need not be monotone in the last feature, as LatencyModel
/// requires for KV tokens: each row is replaced by the mean of its running maximum and its running minimum from the
/// other end, which is monotone. Sums are of doubles, where XGBoost adds floats.
class TreeTable {
 public:
  /// Meaning of the trees' sum.
  enum class Target : std::uint8_t {
    Milliseconds,  ///< per iteration
    Rate,          ///< iterations per second (throttLL'eM's M); at or below 0: implausibly long
  };
  static constexpr std::size_t kMostCells = std::size_t{1} << 22;

  /// Errors: more than 4 Mi cells (thresholds are too many: train with histogram bins).
  [[nodiscard]] static Result<TreeTable> make(const GbdtTrees& trees, bool monotone,
                                              Target target = Target::Milliseconds);

  /// The times in ns for all cells of the third feature, ascending.
  [[nodiscard]] const std::int64_t* row(float clock, float second) const;
  /// at() for many points at one clock, fastest if neighbouring points are similar; equal sizes.
  void many(float clock, std::span<const std::int32_t> second, std::span<const std::int64_t> third,
            std::span<Span> out) const;
  [[nodiscard]] std::int64_t at(float clock, float second, float third) const;
  /// Thresholds of the third feature: cell i of a row is [thresholds[i-1], thresholds[i]).
  [[nodiscard]] const std::vector<float>& thresholds() const { return third_; }
  [[nodiscard]] const std::vector<float>& second_thresholds() const { return second_; }
  [[nodiscard]] std::size_t cells() const { return table_.size(); }

 private:
  std::vector<float> clock_;  ///< thresholds, ascending, of each feature
  std::vector<float> second_;
  std::vector<float> third_;
  std::vector<std::int64_t> table_;  ///< ns, [clock][second][third]
};

/// Milliseconds in ns, clamped so that sums of a few fit into 64 bits.
[[nodiscard]] std::int64_t ns_of_ms(double ms);

}  // namespace wattle::predict
