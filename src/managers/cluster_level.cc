#include "managers/cluster_level.h"

#include <algorithm>
#include <utility>

namespace wattle::managers {

ClusterLevel::ClusterLevel(std::shared_ptr<const plan::LoadTable> table, const HierarchyOptions& options)
    : table_(std::move(table)),
      options_(options),
      map_(*table_, options_.pools, options_.lowest_clocks),
      manager_(*table_, map_, options_.cluster, options_.proactive ? options_.overheads.start() : Span()) {
  manager_.history().begin_with(options_.past);
}

/// One that has just restarted has not: it must not size a fleet for no load.
bool ClusterLevel::knows_load(Instant now) const {
  return !options_.past.empty() ||
         (heard_since_ != Instant::never() && now - heard_since_ >= options_.cluster.load.slot);
}

/// Somebody serves, whatever is known: a node of the largest pool.
void ClusterLevel::staff(ClusterOrder& order) const {
  if (std::ranges::any_of(order.gpus, [](int gpus) { return gpus > 0; })) return;
  order.gpus.back() = options_.cluster.gpus_per_node;
  std::fill(order.forwarded.begin(), order.forwarded.end() - 1, 1.0);
}

const ClusterMandate& ClusterLevel::mandate(const ClusterObservation& seen, Instant now) {
  now = now_ = std::max(now, now_);
  const bool first = !mandate_.has_value();
  if (!first) {
    manager_.history().add(seen.rate_per_s, now);
    heard_since_ = std::min(heard_since_, now);
  }
  manager_.keep_free(seen.reserve);
  int lost = 0;
  for (const int gpus : seen.down) lost += gpus / options_.cluster.gpus_per_node;
  auto order = manager_.order(now, lost);
  if (first) {
    mandate_.emplace(ClusterMandate{std::move(*order), {}});
    if (std::ranges::any_of(seen.gpus, [](int gpus) { return gpus > 0; })) {  // they serve already: it goes on so
      ClusterOrder& present = mandate_->present;
      present.gpus = seen.gpus;
      present.forwarded = seen.forwarded;
      present.gpus.resize(map_.pools());
      present.forwarded.resize(map_.pools());
      present.load_per_s.assign(map_.pools(), 0.0);
      present.shed_per_s.assign(map_.pools(), 0.0);
      present.problem.clear();
    }
    staff(mandate_->present);
    return *mandate_;
  }
  if (order && !knows_load(now)) {
    ClusterOrder same = mandate_->present;
    same.from = order->from;
    same.until = order->until;
    same.number = order->number;
    order = std::move(same);
  }
  const auto put_in_force = [&] {
    if (!mandate_->next || now < mandate_->next->from) return;
    mandate_->present = std::move(*std::exchange(mandate_->next, std::nullopt));
  };
  put_in_force();  // before the one that follows takes its place
  if (order) {
    staff(*order);
    mandate_->next = std::move(*order);
    put_in_force();
  }
  return *mandate_;
}

ClusterObservation observation(const PoolMap& map, std::span<const policy::Shape> shapes,
                               const policy::ScalingView& view) {
  ClusterObservation seen;
  seen.rate_per_s.assign(view.rate_per_s.begin(), view.rate_per_s.end());
  seen.gpus.assign(map.pools(), 0);
  seen.forwarded.assign(map.pools(), 0.0);
  for (const FleetMember& member : view.members) {
    const auto p = static_cast<std::size_t>(member.pool.value());
    if (p >= seen.gpus.size() || member.phase == Phase::Draining) continue;
    seen.gpus[p] += shapes[member.shape].gpus;
  }
  for (const NodeView& node : view.nodes) {
    if (!node.up) seen.down.push_back(node.gpus);
  }
  for (std::size_t c = map.classes(); c-- > 0;) {
    const std::size_t p = map.pool_of(c);
    double sum = 0.0, own = 0.0;
    for (const PoolWeight& w : view.weights) {
      if (w.request_class != ClassId(static_cast<std::int32_t>(c))) continue;
      sum += w.weight;
      if (w.pool == PoolId(static_cast<std::int32_t>(p))) own += w.weight;
    }
    if (sum > 0.0) seen.forwarded[p] = std::clamp(1.0 - own / sum, 0.0, 1.0);
  }
  for (std::size_t p = 0; p + 1 < seen.gpus.size(); ++p) {
    if (seen.gpus[p] == 0) seen.forwarded[p] = 1.0;
  }
  seen.forwarded.back() = 0.0;
  return seen;
}

}  // namespace wattle::managers
