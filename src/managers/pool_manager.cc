#include "managers/pool_manager.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace wattle::managers {

namespace {

/// Of one TP degree: the most an instance carries, and the least it draws at a load.
class Degree {
 public:
  Degree(const plan::ShardClass& of, int tp, bool top_clock, double margin) : of_(of) {
    MegaHertz top;
    for (const auto& profile : of.profiles) {
      if (profile.tp == tp) top = std::max(top, profile.clock);
    }
    for (const auto& profile : of.profiles) {
      if (profile.tp != tp || (top_clock && profile.clock != top)) continue;
      profiles_.push_back(plan::keep_free(profile, of.limits, margin));
      most_ = std::max(most_, plan::most_load(profiles_.back(), of.limits).value_or(0.0));
    }
  }
  [[nodiscard]] double most() const { return most_; }
  [[nodiscard]] Watts power(double load) const {
    std::optional<Watts> least;
    for (const auto& profile : profiles_) {
      const auto point = plan::at_load(profile, load);
      if (!point || point->ttft > of_.limits.ttft || point->tbt > of_.limits.tbt) continue;
      if (!least || point->power < *least) least = point->power;
    }
    return least.value_or(Watts());
  }

 private:
  const plan::ShardClass& of_;
  std::vector<plan::ShardProfile> profiles_;  ///< without what is kept free
  double most_ = 0.0;
};

int gpus_of(const std::vector<int>& tps) { return std::accumulate(tps.begin(), tps.end(), 0); }

/// Larger instances first, each on the first node that has room.
bool nodes_hold(const Layout& layout, int gpus, int gpus_per_node) {
  std::vector<int> free(static_cast<std::size_t>(gpus / gpus_per_node), gpus_per_node);
  free.push_back(gpus % gpus_per_node);
  for (auto at = layout.rbegin(); at != layout.rend(); ++at) {
    for (int count = at->second; count > 0; --count) {
      const auto node = std::ranges::find_if(free, [&](int left) { return left >= at->first; });
      if (node == free.end()) return false;
      *node -= at->first;
    }
  }
  return true;
}

}  // namespace

std::optional<Watts> PoolManager::power(const plan::ShardClass& load, const Layout& layout, int gpus) const {
  double most = 0.0;
  std::vector<std::pair<Degree, int>> degrees;
  for (const auto& [tp, count] : layout) {
    if (count == 0) continue;
    degrees.emplace_back(Degree(load, tp, options_.top_clock, margin()), count);
    most += degrees.back().first.most() * count;
  }
  if (most < load.load_per_s) return std::nullopt;
  const double share = most > 0.0 ? load.load_per_s / most : 0.0;
  int used = 0;
  for (const auto& [tp, count] : layout) used += tp * count;
  Watts sum = options_.unused_gpu * std::max(0, gpus - used);
  for (const auto& [degree, count] : degrees) sum += degree.power(share * degree.most()) * count;
  return sum;
}

bool PoolManager::carry(std::span<const FleetMember> members, const plan::ShardClass& load) const {
  double most = 0.0;
  for (const auto& [tp, count] : layout_of(members)) most += Degree(load, tp, options_.top_clock, 0.0).most() * count;
  return most >= load.load_per_s;
}

std::optional<ClockRange> PoolManager::clocks(const plan::ShardClass& load, const Layout& layout) const {
  std::map<MegaHertz, double> carried;
  for (const auto& profile : load.profiles) {
    const auto count = layout.find(profile.tp);
    if (count == layout.end() || count->second == 0) continue;
    carried[profile.clock] += plan::most_load(profile, load.limits).value_or(0.0) * (1.0 - margin()) * count->second;
  }
  if (carried.empty()) return std::nullopt;
  const auto least = std::ranges::find_if(carried, [&](const auto& entry) { return entry.second >= load.load_per_s; });
  const MegaHertz most = carried.rbegin()->first;
  return ClockRange{pool_, least == carried.end() ? most : least->first, most};
}

Result<Layout> PoolManager::best(const plan::ShardClass& load, int gpus) const {
  plan::ShardingProblem problem;
  problem.gpus = gpus;
  problem.unused_gpu = options_.unused_gpu;
  problem.classes = {load};
  auto& profiles = problem.classes[0].profiles;
  std::erase_if(profiles, [&](const auto& p) { return !shape_of(p.tp); });
  for (auto& profile : profiles) profile = plan::keep_free(std::move(profile), load.limits, margin());
  const plan::ShardingOptions options{.top_clock_only = options_.top_clock, .relative_gap = 1e-3, .nodes = 2'000};
  const auto plan = plan::plan_sharding(problem, options);
  if (!plan) return std::unexpected(plan.error());
  Layout layout;
  for (const auto& group : plan->groups) layout[group.tp] += group.instances;
  return layout;
}

std::optional<Layout> PoolManager::begins_with(const plan::ShardClass& load, int gpus, int gpus_per_node) const {
  if (!options_.reshards || load.load_per_s <= 0.0 || gpus == 0) return std::nullopt;
  auto layout = best(load, gpus);
  if (!layout || layout->empty() || !nodes_hold(*layout, gpus, gpus_per_node)) return std::nullopt;
  return std::move(*layout);
}

PoolDecision PoolManager::decide(const plan::ShardClass& load, int gpus, std::span<const FleetMember> members,
                                 const Surroundings& around) const {
  PoolDecision decision;
  const Layout have = layout_of(members);
  int used = 0;
  for (const auto& [tp, count] : have) used += tp * count;
  decision.wanted = have;
  decision.reason = "layout kept";
  if (!options_.reshards || members.empty()) return decision;
  const int all_gpus = std::max(gpus, used);
  const auto best_layout = best(load, all_gpus);
  const bool none = !best_layout || best_layout->empty() || *best_layout == have;
  const auto now = power(load, have, all_gpus);
  const auto then = none ? std::nullopt : power(load, *best_layout, all_gpus);
  if (none || (now && (!then || *then >= *now))) {
    decision.steps = moves_off_a_node(load, members, around);
    if (!decision.steps.empty()) decision.reason = "a node is emptied";
    return decision;
  }
  auto steps = way(load, members, around.nodes, have, *best_layout);
  Joules cost;
  for (const Step& one : steps) cost += one.step.cost.energy;
  const Watts saving = now && then ? *now - *then : Watts();
  if (now && saving.value() * options_.epoch.seconds() <= cost.value()) {
    decision.reason = "a better layout does not save what changing costs";
    return decision;
  }
  std::ranges::stable_sort(steps, std::ranges::greater{}, &Step::saving);
  int changing = 0;
  bool all = true;
  for (Step& one : steps) {
    int gpus_of_step = 0;
    for (const InstanceId id : one.step.from) {
      const auto found = std::ranges::find(members, id, &FleetMember::id);
      --decision.wanted[tp_of(*found)];
      gpus_of_step += tp_of(*found);
    }
    if (changing > 0 && changing + gpus_of_step > options_.subset * used) {
      for (const InstanceId id : one.step.from)
        ++decision.wanted[tp_of(*std::ranges::find(members, id, &FleetMember::id))];
      all = false;
      continue;
    }
    changing += gpus_of_step;
    for (const std::size_t shape : one.step.to) ++decision.wanted[shapes_[shape].gpus];
    decision.saving += one.saving;
    decision.steps.push_back(std::move(one.step));
  }
  if (all) decision.wanted = *best_layout;
  decision.reason =
      now ? "a better layout saves more than changing costs" : "the present layout does not carry the load";
  return decision;
}

Layout PoolManager::layout_of(std::span<const FleetMember> members) const {
  Layout layout;
  for (const FleetMember& member : members) ++layout[tp_of(member)];
  return layout;
}

std::optional<std::size_t> PoolManager::shape_of(int tp) const {
  const auto found = std::ranges::find(shapes_, tp, &policy::Shape::gpus);
  if (found == shapes_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - shapes_.begin());
}

/// The emptiest node whose instances, all of them steady ones of this pool, fit on free GPUs of others in use: the
/// moves that leave it empty, if its GPUs draw more within the epoch than what is started beside them does until it
/// serves.
std::vector<PlanStep> PoolManager::moves_off_a_node(const plan::ShardClass& load, std::span<const FleetMember> members,
                                                    const Surroundings& around) const {
  std::map<NodeId, std::vector<const FleetMember*>> steady;
  for (const FleetMember& member : members) steady[member.node].push_back(&member);
  const auto held = [&](NodeId node) {
    return static_cast<std::size_t>(std::ranges::count(around.members, node, &FleetMember::node));
  };
  std::vector<NodeView> nodes;  // in use, the emptiest first
  for (const NodeView& node : around.nodes) {
    if (node.up && held(node.id) > 0) nodes.push_back(node);
  }
  std::ranges::stable_sort(nodes, std::ranges::greater{}, &NodeView::free_gpus);
  for (const NodeView& left : nodes) {
    const auto of = steady.find(left.id);
    if (of == steady.end() || of->second.size() != held(left.id)) continue;
    auto there = of->second;
    std::ranges::stable_sort(there, std::ranges::greater{}, [&](const FleetMember* m) { return tp_of(*m); });
    auto others = nodes;
    std::erase_if(others, [&](const NodeView& node) { return node.id == left.id; });
    std::vector<PlanStep> moves;
    Joules cost;
    for (const FleetMember* member : there) {
      NodeView* best = nullptr;  // that has the fewest free GPUs beyond these
      for (NodeView& node : others) {
        if (node.free_gpus >= tp_of(*member) && (best == nullptr || node.free_gpus < best->free_gpus)) best = &node;
      }
      if (best == nullptr) break;
      best->free_gpus -= tp_of(*member);
      PlanStep move{
          .kind = StepKind::Move, .from = {member->id}, .to = {}, .node = best->id, .pool = pool_, .cost = {}};
      move.cost.time = shapes_[member->shape].spawn_time;
      const Watts idle = Degree(load, tp_of(*member), true, 0.0).power(0.0);
      move.cost.energy = Joules(idle.value() * move.cost.time.seconds());
      cost += move.cost.energy;
      moves.push_back(std::move(move));
    }
    const Watts saved = options_.unused_gpu * left.gpus;
    if (moves.size() == there.size() && saved.value() * options_.epoch.seconds() > cost.value()) return moves;
  }
  return {};
}

/// Node by node: surplus instances of one node become missing ones on their GPUs and its free ones, larger ones first.
std::vector<PoolManager::Step> PoolManager::way(const plan::ShardClass& load, std::span<const FleetMember> members,
                                                std::span<const NodeView> views, Layout have,
                                                const Layout& wanted) const {
  std::map<int, int> missing;  // by TP; negative: too many
  for (const auto& [tp, count] : wanted) missing[tp] += count;
  for (const auto& [tp, count] : have) missing[tp] -= count;
  // Where nodes are not accounted for, an instance has its GPUs to itself.
  std::map<std::pair<NodeId, InstanceId>, std::vector<const FleetMember*>> nodes;
  for (const FleetMember& member : members) {
    nodes[{member.node, member.gpus.empty() ? member.id : kNoInstance}].push_back(&member);
  }
  std::vector<Step> steps;
  for (auto& [node, there] : nodes) {
    const auto view = std::ranges::find(views, node.first, &NodeView::id);
    int free = node.second == kNoInstance && view != views.end() && view->up ? view->free_gpus : 0;
    std::ranges::stable_sort(there, std::ranges::greater{}, [&](const FleetMember* m) { return tp_of(*m); });
    for (;;) {
      // What this node can give away, and the largest missing instances that its GPUs then hold.
      std::vector<const FleetMember*> from;
      std::map<int, int> too_many;
      for (const FleetMember* member : there) {
        const int tp = tp_of(*member);
        if (missing[tp] + too_many[tp] >= 0) continue;
        ++too_many[tp];
        from.push_back(member);
      }
      if (from.empty()) break;
      int room = free;
      for (const FleetMember* member : from) room += tp_of(*member);
      std::vector<int> to;
      for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
        for (int count = at->second; count > 0 && at->first <= room; --count, room -= at->first)
          to.push_back(at->first);
      }
      if (to.empty()) break;
      // No more of them than are needed, the smallest that do.
      int needed = gpus_of(to) - free;
      std::ranges::reverse(from);
      std::vector<const FleetMember*> taken;
      for (const FleetMember* member : from) {
        if (needed <= 0) break;
        taken.push_back(member);
        needed -= tp_of(*member);
      }
      if (taken.empty()) break;  // they start on free GPUs
      Step made;
      std::vector<int> from_tps;
      Layout after = have;
      for (const FleetMember* member : taken) {
        made.step.from.push_back(member->id);
        from_tps.push_back(tp_of(*member));
        ++missing[tp_of(*member)];
        --after[tp_of(*member)];
        std::erase(there, member);
      }
      for (const int tp : to) {
        made.step.to.push_back(*shape_of(tp));
        --missing[tp];
        ++after[tp];
      }
      free = std::max(0, free - std::max(0, gpus_of(to) - gpus_of(from_tps)));
      made.step.kind = StepKind::Reshard;
      if (node.second == kNoInstance) made.step.node = node.first;
      made.step.pool = pool_;
      made.step.serves_on = true;  // memory permitting, if with less of it (section IV-C)
      made.step.cost = cost(load, from_tps, to);
      const auto before = power(load, have, gpus_of(from_tps));
      const auto later = power(load, after, gpus_of(from_tps));
      if (before && later) made.saving = *before - *later;
      have = std::move(after);
      steps.push_back(std::move(made));
    }
  }
  return steps;
}

StepCost PoolManager::cost(const plan::ShardClass& load, const std::vector<int>& from,
                           const std::vector<int>& to) const {
  plan::ReshardProblem problem = options_.reshard;
  problem.gpus_per_node = std::max(gpus_of(from), gpus_of(to));
  int next = 0;
  for (const int tp : from) {
    plan::PlacedInstance placed;
    for (int g = 0; g < tp; ++g) placed.gpus.push_back(next++);
    problem.present.push_back(std::move(placed));
  }
  for (const int tp : to) problem.next.push_back({tp, 0});
  StepCost made;
  const auto plan = plan::plan_reshard(problem);
  if (!plan) return made;
  made.time = plan->total_time;
  // Meanwhile the new instances draw beside the old ones.
  Watts draw;
  for (const int tp : to) draw += Degree(load, tp, true, 0.0).power(0.0);
  made.energy = Joules(draw.value() * made.time.seconds());
  for (const int tp : from) made.lost_load_per_s += Degree(load, tp, true, 0.0).most();
  return made;
}

}  // namespace wattle::managers
