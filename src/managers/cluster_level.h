#pragma once
// The cluster manager as pool managers see it: they say what they observe and hear what holds for their pools. It
// may be a process of its own; one that restarts takes the present epoch's order from what they observe.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "managers/hierarchy_options.h"

namespace wattle::managers {

/// What goes up.
struct ClusterObservation {
  std::vector<double> rate_per_s;  ///< by class, since last said; classes that are missing had none
  std::vector<double> reserve;     ///< by pool: share of what it carries to be kept free beside the margin; none: 0
  std::vector<int> gpus;           ///< by pool, of instances that serve or come; empty: nothing is there yet
  std::vector<double> forwarded;   ///< by pool, share of what comes to it that goes on to larger ones
  std::vector<int> down = {};      ///< GPUs of each node that is down
};

/// What comes down.
struct ClusterMandate {
  ClusterOrder present;
  std::optional<ClusterOrder> next;  ///< ordered already: what grows is started now, the rest waits for its epoch
};

class ClusterLevel {
 public:
  ClusterLevel(std::shared_ptr<const plan::LoadTable> table, const HierarchyOptions& options);

  /// The same observation said by several is one. A `now` before the last one counts as that.
  const ClusterMandate& mandate(const ClusterObservation& seen, Instant now);
  [[nodiscard]] const PoolMap& pools() const { return map_; }

 private:
  [[nodiscard]] bool knows_load(Instant now) const;
  void staff(ClusterOrder& order) const;

  std::shared_ptr<const plan::LoadTable> table_;
  HierarchyOptions options_;
  PoolMap map_;
  ClusterManager manager_;
  std::optional<ClusterMandate> mandate_;
  Instant now_;
  Instant heard_since_ = Instant::never();
};

/// What of a fleet goes up to a cluster manager.
[[nodiscard]] ClusterObservation observation(const PoolMap& map, std::span<const policy::Shape> shapes,
                                             const policy::ScalingView& view);

}  // namespace wattle::managers
