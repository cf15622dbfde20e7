#include "managers/cluster_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "managers/tiers.h"
#include "plan/sharding.h"

namespace wattle::managers {

ClusterManager::ClusterManager(const plan::LoadTable& table, const PoolMap& pools, const ClusterOptions& options,
                               Span start)
    : pools_(pools), options_(options), start_(start), history_(table.classes.size(), options.load) {}

std::optional<ClusterOrder> ClusterManager::order(Instant now, int nodes_down) {
  const bool same_nodes = std::exchange(down_, nodes_down) == nodes_down;
  if (!same_nodes) solve_again_ = true;
  // The present epoch, as far as anything is known of it.
  const Instant begin = Instant(now.ns() / options_.epoch.ns() * options_.epoch.ns());
  if (!next_) {
    next_ = options_.scales ? begin + options_.epoch : Instant::never();
    return make(begin, begin + options_.epoch, now, *next_);
  }
  if (!options_.scales) return std::nullopt;
  if (!same_nodes || outgrown(begin)) {  // whatever was ordered for the next
    next_ = begin + options_.epoch;
    return make(begin, *next_, now, *next_);
  }
  // Where epochs are shorter than a start: once the one before has begun, else none would ever be in force.
  if (now + std::min(start_, options_.epoch) < *next_) return std::nullopt;
  const Instant from = *next_;
  next_ = from + options_.epoch;
  return make(from, *next_, from, *next_);
}

/// More comes of a class within the present epoch than the newest order is for.
bool ClusterManager::outgrown(Instant begin) const {
  if (!options_.out_of_turn) return false;
  const auto peak_per_s = history_.peak(begin, begin + options_.epoch);
  return !std::ranges::equal(peak_per_s, solved_, std::ranges::less_equal());
}

/// A pool's GPUs are whole nodes where there are enough: what it leaves of one draws power and costs anyway.
void ClusterManager::in_nodes(std::vector<int>& gpus) const {
  std::vector<int> nodes;
  for (const int n : gpus) nodes.push_back((n + options_.gpus_per_node - 1) / options_.gpus_per_node);
  if (std::accumulate(nodes.begin(), nodes.end(), 0) > nodes_up()) return;
  for (std::size_t p = 0; p < gpus.size(); ++p) gpus[p] = nodes[p] * options_.gpus_per_node;
}

/// As plan::share_nodes counts a node.
double ClusterManager::node_usefully_carries(const plan::ProfiledClass& one) const {
  const int tp = plan::node_tp(one.profiles, options_.gpus_per_node);
  return tp == 0 ? 0.0 : plan::most_useful_load(one, tp) * (options_.gpus_per_node / tp);
}

/// For the load expected within an epoch, in force from `from` until `until`.
ClusterOrder ClusterManager::make(Instant begin, Instant end, Instant from, Instant until) {
  auto peak_per_s = history_.peak(begin, end);
  if (std::exchange(solve_again_, false) || peak_per_s != solved_) {
    solution_ = solve(peak_per_s);
    solved_ = std::move(peak_per_s);
  }
  ClusterOrder made = solution_;
  made.from = from;
  made.until = until;
  made.number = begin.ns() / options_.epoch.ns();
  return made;
}

/// Where one pool at stricter objectives takes less power than pools by tier, the looser tiers' load becomes the
/// stricter one's (HPCA 2025, section IV-D). Says so.
std::string ClusterManager::share_pools(std::vector<double>& load_per_s) const {
  const std::size_t tiers = pools_.tiers();
  if (tiers == 1) return "";
  std::string said;
  const auto problem = pools_.problem(load_per_s, nodes_up() * options_.gpus_per_node, Watts());
  for (std::size_t first = 0; first < load_per_s.size(); first += tiers) {
    std::vector<TierLoad> loads;
    for (std::size_t t = 0; t < tiers; ++t) {
      const auto& one = problem.classes[first + t];
      loads.push_back({load_per_s[first + t], one.limits, one.profiles});
      for (auto& profile : loads.back().profiles) {
        profile = plan::keep_free(std::move(profile), one.limits, margin(first + t));
      }
    }
    const plan::ProfiledClass& of = pools_.profile(first + tiers - 1);
    const auto split = split_tiers(of, loads, problem.gpus, options_.unused_gpu, options_.gpus_per_node);
    if (!split) continue;  // each has its own pool
    for (std::size_t t = 0; t + 1 < tiers; ++t) {
      if (split->pool_of[t] != split->pool_of[t + 1]) continue;
      load_per_s[first + t + 1] += load_per_s[first + t] * problem.classes[first + t].load_in_next;
      load_per_s[first + t] = 0.0;
    }
    const std::size_t pools = std::set(split->pool_of.begin(), split->pool_of.end()).size();
    said += fmt::format("{}{}: {} of {} tiers, {:.0f} W; one pool {:.0f} W, apart {:.0f} W", said.empty() ? "" : "; ",
                        of.name, pools == 1 ? "one pool" : fmt::format("{} pools", pools), tiers, split->split.value(),
                        split->one_pool.value(), split->apart.value());
  }
  return said;
}

/// Where what comes to a pool is not its own alone: as " (1/s arriving, 240/s as load sent on from SS)".
std::string ClusterManager::sent_to(std::size_t pool, const std::vector<double>& load,
                                    const std::vector<double>& sent_on, const plan::ShardingProblem& problem) const {
  double sent = 0.0;
  std::string from;
  for (std::size_t q = 0; q < pool; ++q) {
    if (sent_on[q] <= 0.0) continue;
    if (pools_.next(q) == pool) sent += sent_on[q] * problem.classes[q].load_in_next;
    std::size_t at = q;
    while (at < pool && sent_on[at] > 0.0) at = pools_.next(at);
    if (at == pool && load[q] > 0.0) from += (from.empty() ? "" : ", ") + problem.classes[q].name;
  }
  if (sent <= 0.0) return "";
  return fmt::format(" ({:.3g}/s arriving, {:.3g}/s as load sent on from {})", load[pool], sent, from);
}

/// The nodes that are up, and capacity kept free.
plan::ShardingProblem ClusterManager::problem_of(const std::vector<double>& load) const {
  auto problem = pools_.problem(load, nodes_up() * options_.gpus_per_node, options_.unused_gpu);
  problem.gpus_per_node = options_.gpus_per_node;
  for (std::size_t p = 0; p < problem.classes.size(); ++p) {
    auto& one = problem.classes[p];
    for (auto& profile : one.profiles) profile = plan::keep_free(std::move(profile), one.limits, margin(p));
  }
  for (std::size_t p = 0; options_.within_limits && p < problem.classes.size(); ++p) {
    if (pools_.next(p) >= problem.classes.size()) continue;
    const auto& own = problem.classes[p].limits;
    const auto& next = problem.classes[pools_.next(p)].limits;
    problem.classes[p].forwards = next.ttft <= own.ttft && next.tbt <= own.tbt;
  }
  // Which tiers share is decided. What those apart leave over would fill the stricter pool to its last request.
  for (std::size_t p = 0; p < problem.classes.size(); ++p) {
    if ((p + 1) % pools_.tiers() != 0) problem.classes[p].forwards = false;
  }
  return problem;
}

/// One optimisation over all pools. None: it found nothing, or no load.
std::optional<ClusterManager::Division> ClusterManager::optimised(const plan::ShardingProblem& problem) const {
  const auto whole = plan::plan_sharding(problem, {.relative_gap = 1e-2, .nodes = 5'000});
  if (!whole || !whole->found()) return std::nullopt;
  Division made(problem.classes.size());
  for (const auto& group : whole->groups) {
    made.gpus[group.pool] += group.tp * group.instances;
    made.load_per_s[group.pool] += group.load_per_s * group.instances;
    made.carries_per_s[group.pool] += group.instances * plan::most_useful_load(pools_.profile(group.pool), group.tp);
  }
  in_nodes(made.gpus);
  made.sent_on_per_s = whole->forwarded_per_s;
  made.shed_per_s = whole->shed_per_s;
  if (std::ranges::all_of(made.gpus, [](int n) { return n == 0; })) return std::nullopt;
  return made;
}

/// Whole nodes, pool by pool.
ClusterManager::Division ClusterManager::node_by_node(const plan::ShardingProblem& problem) const {
  const auto rounding = options_.rule == NodeRule::Up ? plan::NodeRounding::Up : plan::NodeRounding::Down;
  const auto shares = plan::share_nodes(problem, options_.gpus_per_node, rounding);
  Division made(problem.classes.size());
  for (std::size_t p = 0; p < shares.size(); ++p) {
    made.gpus[p] = shares[p].nodes * options_.gpus_per_node;
    made.load_per_s[p] = shares[p].arriving_per_s - shares[p].forwarded_per_s - shares[p].shed_per_s;
    made.sent_on_per_s[p] = shares[p].forwarded_per_s;
    made.shed_per_s[p] = shares[p].shed_per_s;
    made.carries_per_s[p] = shares[p].nodes * node_usefully_carries(pools_.profile(p));
  }
  return made;
}

ClusterOrder ClusterManager::solve(const std::vector<double>& peak_per_s) const {
  auto load = pools_.by_pool(peak_per_s);
  ClusterOrder order;
  order.tiers = share_pools(load);
  const auto problem = problem_of(load);
  auto divided = options_.rule == NodeRule::Whole ? optimised(problem) : std::nullopt;
  if (!divided) divided = node_by_node(problem);
  order.gpus = std::move(divided->gpus);
  order.load_per_s = std::move(divided->load_per_s);
  order.shed_per_s = std::move(divided->shed_per_s);
  order.forwarded.assign(load.size(), 0.0);
  const auto& sent_on = divided->sent_on_per_s;
  for (std::size_t p = 0; p < load.size(); ++p) {
    // Taken in, although more of it misses its objectives.
    const double late = std::clamp(divided->carries_per_s[p] - order.load_per_s[p], 0.0, order.shed_per_s[p]);
    order.load_per_s[p] += late;
    order.shed_per_s[p] -= late;
    const double arriving = order.load_per_s[p] + sent_on[p] + order.shed_per_s[p];
    order.forwarded[p] =
        arriving > 0.0 ? std::clamp(sent_on[p] / arriving, 0.0, 1.0) : (order.gpus[p] == 0 ? 1.0 : 0.0);
    if (order.shed_per_s[p] + late <= 0.0) continue;
    const auto& one = problem.classes[p];
    const bool served = !plan::least_power(one.profiles, one.limits, false).empty();
    if (!order.problem.empty()) order.problem += "; ";
    if (late > 0.0) order.problem += fmt::format("{:.3g}/s of {} are more than keeps the objectives, ", late, one.name);
    order.problem += fmt::format(
        "{:.3g}/s of {}{} are not carried: {}", order.shed_per_s[p], one.name, sent_to(p, load, sent_on, problem),
        served ? fmt::format("{} nodes are too few", nodes_up())
               : "no configuration meets its objectives, " + plan::nearest_profile(one.profiles, one.limits));
  }
  order.forwarded.back() = 0.0;
  return order;
}

}  // namespace wattle::managers
