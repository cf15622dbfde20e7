#pragma once
// Which GPUs of which node are in use, and where an instance can be started.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/fleet.h"
#include "model/plan.h"

namespace wattle::control {

/// GPUs of one node on which an instance of a shape may be placed together.
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

  /// No nodes: GPUs are not accounted for, and there is room everywhere. `places`: where instances may be; empty: on
  /// any GPUs of a node.
  explicit GpuSlots(const std::vector<Node>& nodes, std::vector<GpuPlace> places = {});
  [[nodiscard]] bool accounts() const { return !nodes_.empty(); }

  /// The lowest free GPUs of the node with the fewest free ones beyond these; on `node` if one is given, and on one of
  /// `among` (empty: any). None: no such node is up and has room.
  [[nodiscard]] std::optional<Place> place(std::size_t shape, std::int32_t gpus, std::optional<NodeId> node,
                                           std::span<const NodeId> among = {}) const;
  /// Places for instances of these shapes together on these GPUs of the node, if only certain places are permitted.
  /// None: there are none.
  [[nodiscard]] std::optional<std::vector<std::vector<std::int32_t>>> side_by_side(
      const std::vector<std::size_t>& shapes, NodeId node, std::span<const std::int32_t> gpus) const;
  [[nodiscard]] bool only_certain() const { return !places_.empty(); }
  /// GPUs may be taken twice: a re-shard's old and new instance share some for a while.
  void take(NodeId node, std::span<const std::int32_t> gpus) { add(node, gpus, +1); }
  void give(NodeId node, std::span<const std::int32_t> gpus) { add(node, gpus, -1); }
  void set_up(NodeId node, bool up);
  [[nodiscard]] bool is_up(NodeId node) const;
  /// Number of unused GPUs of the node; 0 for an unknown node.
  [[nodiscard]] std::int32_t free_on(NodeId node) const;
  /// The lowest unused GPUs, at most `gpus`.
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
