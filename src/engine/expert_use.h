#pragma once
// How many experts of a layer a step touches, and how unevenly its tokens fall on the GPUs that hold them. Internal to
// engine/.
#include <cstdint>
#include <vector>

#include "model/hardware.h"

namespace wattle::engine {

/// Each token picks experts_per_token of the experts, independently of other tokens: with expert_skew 0 each alike,
/// else the i-th most popular in proportion to i^-skew (none more often than once per token).
class ExpertUse {
 public:
  /// Experts are dealt out to the groups of `expert_parallel` by popularity, one after the other.
  ExpertUse(const LlmSpec& llm, std::int32_t expert_parallel);

  /// Experts of the whole layer that have at least one of so many tokens, expected.
  [[nodiscard]] double touched(double tokens) const;
  /// Tokens on the busiest of the expert groups over their mean, >= 1: its experts' popularity, and where that is even
  /// the expected largest of as many binomial counts (mean + deviation x sqrt(2 ln groups)).
  [[nodiscard]] double imbalance(double tokens) const;

 private:
  double experts_;
  double per_token_;
  double groups_;
  double hottest_ = 1.0;        ///< share of the group with the most popular experts over the mean share
  std::vector<double> chosen_;  ///< probability that a token picks the i-th; empty: all alike
};

}  // namespace wattle::engine
