#pragma once
// Which nodes cannot be reached any more, by what the gateway, where requests pass, says of the engines there.
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "model/fleet.h"
#include "units/time.h"

namespace wattle::planner {

/// A node is cut off once none of its engines that have served could be reached for a while: one engine alone may have
/// died, all together are the node, or the way to it. It counts as there again after a pause, which doubles each time
/// that nothing there is reached afterwards, up to sixteen times.
class CutOffs {
 public:
  CutOffs(Span patience, Span pause) : patience_(patience), pause_(pause) {}

  /// What the gateway says of an engine that has served and has not been asked to go. Seconds without a sight of a
  /// node, as when the gateway itself does not answer, do not count as its silence.
  struct Sight {
    NodeId node;
    bool reachable = false;
  };
  /// Nodes that are cut off (false) or there again (true) from now on.
  [[nodiscard]] std::vector<std::pair<NodeId, bool>> look(std::span<const Sight> sights, Instant now);
  [[nodiscard]] bool cut_off(NodeId node) const;

 private:
  struct State {
    Instant silent_since = Instant::never();
    Instant seen_at{};
    Instant again_at = Instant::never();  ///< never: it is not cut off
    int times = 0;                        ///< in a row
  };
  Span patience_, pause_;
  std::map<NodeId, State> states_;
};

}  // namespace wattle::planner
