#pragma once
// Maximum-weight bipartite assignment, by LEMON's network simplex.
#include <cstdint>
#include <vector>

namespace wattle::plan {

struct MatchEdge {
  int left = 0, right = 0;
  std::int64_t weight = 0;
};

/// Gives every left node its own right node, over edges only, with the largest sum of weights. Result: the right node
/// of each left node; empty when not all can have one.
[[nodiscard]] std::vector<int> max_weight_assignment(int lefts, int rights, const std::vector<MatchEdge>& edges);

}  // namespace wattle::plan
