#pragma once
// Maximum-weight bipartite assignment, by LEMON's network simplex.
#include <cstdint>
#include <vector>

namespace wattle::plan {

struct MatchEdge {
  int left = 0, right = 0;
  std::int64_t weight = 0;
};

/// Assigns each left node a distinct right node along the given edges, with the largest sum of weights. Returns the
/// right node of each left node; empty if no complete assignment exists.
[[nodiscard]] std::vector<int> max_weight_assignment(int lefts, int rights, const std::vector<MatchEdge>& edges);

}  // namespace wattle::plan
