#pragma once
// The cluster manager as pool managers see it: they report observations and get the order that is in force for their
// pools. It may run as a process of its own; after a restart it reconstructs the present epoch's order from what they
// observe.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "managers/hierarchy_options.h"

namespace wattle::managers {

/// Sent to the cluster manager.
struct ClusterObservation {
  std::vector<double> rate_per_s;  ///< by class, 1/s, since the last observation; missing: none
  std::vector<double> reserve;  ///< by pool: share of its capacity to keep free beyond the margin, in [0, 1); empty: 0
  std::vector<int> gpus;        ///< by pool, of instances that serve or are starting; empty: none yet
  std::vector<double> forwarded;  ///< by pool: share of its requests that goes on to larger pools, in [0, 1]
  std::vector<int> down = {};     ///< GPUs of each node that is down
};

/// Returned by the cluster manager.
struct ClusterMandate {
  ClusterOrder present;
  std::optional<ClusterOrder> next;  ///< if ordered already: growing pools start now, other changes wait
};

class ClusterLevel {
 public:
  ClusterLevel(std::shared_ptr<const plan::LoadTable> table, const HierarchyOptions& options);

  /// Equal observations from several pool managers count once. A `now` before the last one is treated as equal to it.
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

/// The part of a fleet's view that a cluster manager needs.
[[nodiscard]] ClusterObservation observation(const PoolMap& map, std::span<const policy::Shape> shapes,
                                             const policy::ScalingView& view);

}  // namespace wattle::managers
