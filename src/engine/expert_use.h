#pragma once
// How many experts of a layer a step uses, and how unevenly its tokens are distributed over the GPUs that hold them.
// Internal to engine/.
#include <cstdint>
#include <vector>

#include "model/hardware.h"

namespace wattle::engine {

/// Each token selects experts_per_token of the experts, independently of other tokens: with expert_skew 0 all are
/// equally likely, otherwise the i-th most popular in proportion to i^-skew (at most once per token).
class ExpertUse {
 public:
  /// Experts are distributed over the `expert_parallel` groups by popularity, in turn.
  ExpertUse(const LlmSpec& llm, std::int32_t expert_parallel);

  /// Expected number of experts of the layer that get at least one of `tokens` tokens.
  [[nodiscard]] double touched(double tokens) const;
  /// Tokens on the busiest expert group over their mean, >= 1: by its experts' popularity; with equal popularity, the
  /// expected maximum of the groups' binomial counts (mean + deviation x sqrt(2 ln groups)).
  [[nodiscard]] double imbalance(double tokens) const;

 private:
  double experts_;
  double per_token_;
  double groups_;
  double hottest_ = 1.0;        ///< share of the group with the most popular experts over the mean share
  std::vector<double> chosen_;  ///< probability that a token selects the i-th; empty: all equal
};

}  // namespace wattle::engine
