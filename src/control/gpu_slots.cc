#include "control/gpu_slots.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace wattle::control {

GpuSlots::GpuSlots(const std::vector<Node>& nodes, std::vector<GpuPlace> places) : places_(std::move(places)) {
  for (const Node& node : nodes) {
    nodes_.push_back({node.id, true, std::vector<std::int32_t>(static_cast<std::size_t>(node.gpus), 0)});
  }
}

std::int32_t GpuSlots::Slots::free() const { return static_cast<std::int32_t>(std::ranges::count(users, 0)); }

std::optional<GpuSlots::Place> GpuSlots::place(std::size_t shape, std::int32_t gpus, std::optional<NodeId> node,
                                               std::span<const NodeId> among) const {
  if (!accounts()) return Place{node.value_or(NodeId{}), {}};
  if (only_certain()) {
    const GpuPlace* chosen = nullptr;
    std::int32_t fewest = 0;
    for (const GpuPlace& place : places_) {
      if (place.shape != shape || (node && place.node != *node)) continue;
      if (!among.empty() && std::ranges::find(among, place.node) == among.end()) continue;
      const auto slots = std::ranges::find(nodes_, place.node, &Slots::id);
      if (slots == nodes_.end() || !slots->up) continue;
      const auto taken = [&](std::int32_t g) { return slots->users.at(static_cast<std::size_t>(g)) > 0; };
      if (std::ranges::any_of(place.gpus, taken) || (chosen != nullptr && slots->free() >= fewest)) continue;
      chosen = &place;
      fewest = slots->free();
    }
    if (chosen == nullptr) return std::nullopt;
    return Place{chosen->node, chosen->gpus};
  }
  const Slots* best = nullptr;
  for (const Slots& slots : nodes_) {
    if (!slots.up || (node && slots.id != *node) || slots.free() < gpus) continue;
    if (!among.empty() && std::ranges::find(among, slots.id) == among.end()) continue;
    if (best == nullptr || slots.free() < best->free()) best = &slots;
  }
  if (best == nullptr) return std::nullopt;
  return Place{best->id, lowest_free(best->id, gpus)};
}

std::int32_t GpuSlots::free_on(NodeId node) const {
  const auto slots = std::ranges::find(nodes_, node, &Slots::id);
  return slots == nodes_.end() ? 0 : slots->free();
}

std::vector<std::int32_t> GpuSlots::lowest_free(NodeId node, std::int32_t gpus) const {
  std::vector<std::int32_t> found;
  const auto slots = std::ranges::find(nodes_, node, &Slots::id);
  for (std::size_t g = 0; slots != nodes_.end() && g < slots->users.size() && std::ssize(found) < gpus; ++g) {
    if (slots->users[g] == 0) found.push_back(static_cast<std::int32_t>(g));
  }
  return found;
}

std::optional<std::vector<std::vector<std::int32_t>>> GpuSlots::side_by_side(const std::vector<std::size_t>& shapes,
                                                                             NodeId node,
                                                                             std::span<const std::int32_t> gpus) const {
  std::vector<std::vector<std::int32_t>> found;
  std::vector<std::int32_t> left(gpus.begin(), gpus.end());
  const auto put = [&](const auto& next) -> bool {
    if (found.size() == shapes.size()) return true;
    for (const GpuPlace& place : places_) {
      if (place.shape != shapes[found.size()] || place.node != node) continue;
      const auto is_left = [&](std::int32_t g) { return std::ranges::find(left, g) != left.end(); };
      if (!std::ranges::all_of(place.gpus, is_left)) continue;
      const auto before = left;
      for (const std::int32_t g : place.gpus) std::erase(left, g);
      found.push_back(place.gpus);
      if (next(next)) return true;
      found.pop_back();
      left = before;
    }
    return false;
  };
  if (!put(put)) return std::nullopt;
  return found;
}

void GpuSlots::add(NodeId node, std::span<const std::int32_t> gpus, std::int32_t sign) {
  const auto slots = std::ranges::find(nodes_, node, &Slots::id);
  if (slots == nodes_.end()) return;
  for (const std::int32_t gpu : gpus) {
    auto& users = slots->users.at(static_cast<std::size_t>(gpu));
    users += sign;
    WATTLE_CHECK(users >= 0, "a GPU is given back once");
  }
}

void GpuSlots::set_up(NodeId node, bool up) {
  const auto slots = std::ranges::find(nodes_, node, &Slots::id);
  if (slots != nodes_.end()) slots->up = up;
}

bool GpuSlots::is_up(NodeId node) const {
  const auto slots = std::ranges::find(nodes_, node, &Slots::id);
  return slots == nodes_.end() || slots->up;
}

std::vector<NodeView> GpuSlots::views() const {
  std::vector<NodeView> views;
  for (const Slots& slots : nodes_) {
    views.push_back({slots.id, static_cast<std::int32_t>(slots.users.size()), slots.up ? slots.free() : 0, slots.up});
  }
  return views;
}

}  // namespace wattle::control
