#include "plan/matching.h"

// LEMON's graphs guard their observers with a mutex unless it is configured for one thread, and Debian's is not. Ours
// are never seen by two threads, and plan/ holds no locks (law 1): its one-thread lock, under its header's guard.
#define LEMON_BITS_LOCK_H
namespace lemon::bits {
class Lock {
 public:
  void lock() {}
  void unlock() {}
};
}  // namespace lemon::bits
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

namespace wattle::plan {

std::vector<int> max_weight_assignment(int lefts, int rights, const std::vector<MatchEdge>& edges) {
  using lemon::SmartDigraph;
  SmartDigraph graph;
  graph.reserveNode(lefts + rights + 1);
  graph.reserveArc(static_cast<int>(edges.size()) + rights);
  std::vector<SmartDigraph::Node> left, right;
  for (int i = 0; i < lefts; ++i) left.push_back(graph.addNode());
  for (int i = 0; i < rights; ++i) right.push_back(graph.addNode());
  const SmartDigraph::Node sink = graph.addNode();
  std::vector<SmartDigraph::Arc> arcs;
  for (const MatchEdge& edge : edges) {
    arcs.push_back(
        graph.addArc(left[static_cast<std::size_t>(edge.left)], right[static_cast<std::size_t>(edge.right)]));
  }
  for (const auto node : right) graph.addArc(node, sink);

  SmartDigraph::ArcMap<int> capacity(graph, 1);
  SmartDigraph::ArcMap<std::int64_t> cost(graph, 0);
  SmartDigraph::NodeMap<int> supply(graph, 0);
  for (std::size_t i = 0; i < edges.size(); ++i) cost[arcs[i]] = -edges[i].weight;
  for (const auto node : left) supply[node] = 1;
  supply[sink] = -lefts;
  lemon::NetworkSimplex<SmartDigraph, int, std::int64_t> simplex(graph);
  simplex.upperMap(capacity).costMap(cost).supplyMap(supply);
  if (simplex.run() != lemon::NetworkSimplex<SmartDigraph, int, std::int64_t>::OPTIMAL) return {};
  std::vector<int> match(static_cast<std::size_t>(lefts), -1);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (simplex.flow(arcs[i]) > 0) match[static_cast<std::size_t>(edges[i].left)] = edges[i].right;
  }
  return match;
}

}  // namespace wattle::plan
