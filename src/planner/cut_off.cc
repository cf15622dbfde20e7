#include "planner/cut_off.h"

#include <algorithm>

namespace wattle::planner {

std::vector<std::pair<NodeId, bool>> CutOffs::look(std::span<const Sight> sights, Instant now) {
  constexpr int kMostDoublings = 4;
  constexpr Span kBetweenSights = Span::s(3);  ///< beyond that nobody knows whether a silence lasted
  std::map<NodeId, bool> reached;
  for (const Sight& sight : sights) reached[sight.node] = reached[sight.node] || sight.reachable;
  std::vector<std::pair<NodeId, bool>> changes;
  for (auto& [node, state] : states_) {
    if (now < state.again_at) continue;
    state.again_at = Instant::never();
    changes.emplace_back(node, true);
  }
  for (const auto& [node, any] : reached) {
    State& state = states_[node];
    if (state.again_at != Instant::never()) continue;  // what is left there is not asked
    if (any) state = {};
    if (now - std::exchange(state.seen_at, now) > kBetweenSights) state.silent_since = Instant::never();
    if (any || state.silent_since == Instant::never()) {
      state.silent_since = any ? Instant::never() : now;
      continue;
    }
    if (now < state.silent_since + patience_) continue;
    state.again_at = now + pause_ * (std::int64_t{1} << std::min(state.times, kMostDoublings));
    state.silent_since = Instant::never();
    ++state.times;
    changes.emplace_back(node, false);
  }
  return changes;
}

bool CutOffs::cut_off(NodeId node) const {
  const auto found = states_.find(node);
  return found != states_.end() && found->second.again_at != Instant::never();
}

}  // namespace wattle::planner
