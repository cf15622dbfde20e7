#pragma once
// Which GPUs of which node are taken: where an instance can be started.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/fleet.h"
#include "model/plan.h"

namespace wattle::control {

/// GPUs of one node that an instance of a shape may be put on together.
struct GpuPlace {
  std::size_t shape = 0;
  NodeId node{};
  std::vector<std::int32_t> gpus = {};
};

class GpuSlots {
 public:
  struct Place {
    NodeId node{};
    std::vector<std::int32_t> gpus;
  };

  /// No nodes: GPUs are not accounted for, and there is room everywhere. `places`: where instances may stand; empty:
  /// on any GPUs of a node.
  explicit GpuSlots(const std::vector<Node>& nodes, std::vector<GpuPlace> places = {});
  [[nodiscard]] bool accounts() const { return !nodes_.empty(); }

  /// The lowest free GPUs of the node that has the fewest free ones beyond these; within `node` where one is asked
  /// for, and on one of `among` (empty: any). None: no such node that is up has room.
  [[nodiscard]] std::optional<Place> place(std::size_t shape, std::int32_t gpus, std::optional<NodeId> node,
                                           std::span<const NodeId> among = {}) const;
  /// Instances of these shapes side by side on these GPUs of the node, where only certain places are allowed. None: no
  /// such places.
  [[nodiscard]] std::optional<std::vector<std::vector<std::int32_t>>> side_by_side(
      const std::vector<std::size_t>& shapes, NodeId node, std::span<const std::int32_t> gpus) const;
  [[nodiscard]] bool only_certain() const { return !places_.empty(); }
  /// GPUs may be taken twice: a re-shard's old and new instance share some for a while.
  void take(NodeId node, std::span<const std::int32_t> gpus) { add(node, gpus, +1); }
  void give(NodeId node, std::span<const std::int32_t> gpus) { add(node, gpus, -1); }
  void set_up(NodeId node, bool up);
  [[nodiscard]] bool is_up(NodeId node) const;
  /// GPUs of the node that nobody has; 0 for a node that is not known.
  [[nodiscard]] std::int32_t free_on(NodeId node) const;
  /// The lowest of them, at most so many.
  [[nodiscard]] std::vector<std::int32_t> lowest_free(NodeId node, std::int32_t gpus) const;
  [[nodiscard]] std::vector<NodeView> views() const;

 private:
  struct Slots {
    NodeId id;
    bool up = true;
    std::vector<std::int32_t> users;  ///< by GPU
    [[nodiscard]] std::int32_t free() const;
  };
  void add(NodeId node, std::span<const std::int32_t> gpus, std::int32_t sign);
  std::vector<Slots> nodes_;
  std::vector<GpuPlace> places_;
};

}  // namespace wattle::control
