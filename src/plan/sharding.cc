#include "plan/sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/milp.h"

namespace wattle::plan {

namespace {

Result<void> check(const ShardingProblem& problem) {
  if (problem.classes.empty()) return bad_input("classes", "there are none");
  if (problem.gpus < 0) return bad_input("gpus", "must be at least 0");
  if (problem.gpus_per_node < 0) return bad_input("gpus_per_node", "must be at least 0");
  for (const ShardClass& one : problem.classes) {
    const bool numbers = std::isfinite(one.load_per_s) && one.load_per_s >= 0.0 && std::isfinite(one.load_in_next) &&
                         one.load_in_next > 0.0;
    if (!numbers)
      return bad_input(one.name, "its load must be finite and at least 0, its weight in the next pool above 0");
    for (const ShardProfile& profile : one.profiles) {
      const std::string where = fmt::format("{} TP{} at {} MHz", one.name, profile.tp, profile.clock.value());
      if (auto ok = check_profile(profile, where); !ok) return ok;
    }
  }
  return {};
}

int nodes_of(const ShardingProblem& problem, int gpus) {
  return (gpus + problem.gpus_per_node - 1) / problem.gpus_per_node;
}

/// Equation 1 as a program. A segment of the least-power curve gets a whole number of instances N, their load Y with
/// from N <= Y <= to N, and a switch: of each TP degree in a pool one segment at most is in use, so that its instances
/// share load and clock. N x power(Y / N) is then linear: fixed N + per_load Y.
class ShardingModel {
 public:
  struct Use {
    std::size_t pool;
    PowerSegment segment;
    int instances, load;
  };

  ShardingModel(const ShardingProblem& problem, const ShardingOptions& options) : problem_(problem) {
    std::vector<Milp::Term> gpus;
    std::vector<double> most(problem.classes.size(), 0.0);  // its own and all that smaller pools may forward
    for (std::size_t c = 0; c < problem.classes.size(); ++c) {
      const ShardClass& one = problem.classes[c];
      most[c] += one.load_per_s;
      if (c + one.next < most.size()) most[c + one.next] += most[c] * one.load_in_next;
      const auto segments = least_power(one.profiles, one.limits, options.top_clock_only);
      served_.push_back(!segments.empty());
      for (std::size_t i = 0; i < segments.size();) {
        std::size_t end = i;
        while (end < segments.size() && segments[end].tp == segments[i].tp) ++end;
        add_degree(c, std::span(segments).subspan(i, end - i), most[c], gpus);
        i = end;
      }
    }
    program_.row(-kNoLimit, problem.gpus, gpus);
    if (problem.gpus_per_node > 0 && problem.unused_gpu > Watts()) {
      const double node_w = problem.gpus_per_node * problem.unused_gpu.value();
      const int nodes = program_.variable(0, nodes_of(problem, problem.gpus), node_w, Domain::Integer);
      gpus.push_back({nodes, -static_cast<double>(problem.gpus_per_node)});
      program_.row(-kNoLimit, 0.0, gpus);
    }
    for (std::size_t c = 0; c < problem.classes.size(); ++c) {
      const bool keeps = c + problem.classes[c].next >= problem.classes.size() || !problem.classes[c].forwards;
      forwarded_.push_back(program_.variable(0, keeps ? 0.0 : kNoLimit, 0.0));
      shed_.push_back(program_.variable(0, 0.0, 0.0));
    }
    for (std::size_t c = 0; c < problem.classes.size(); ++c) add_balance(c);
  }

  [[nodiscard]] MilpSolution optimise(const ShardingOptions& options) {
    const bool together = problem_.classes.size() > 1;
    const MilpOptions milp{.relative_gap = options.relative_gap,
                           .nodes = options.nodes,
                           .time = options.time,
                           .preprocess = together,
                           .cuts = together,
                           .plain_pricing = true};
    MilpSolution solution = solve(program_, milp);
    if (solution.status != MilpStatus::Infeasible) return solution;
    return shed_least(milp);
  }

  [[nodiscard]] const std::vector<Use>& uses() const { return uses_; }
  [[nodiscard]] double forwarded(std::size_t c, const std::vector<double>& v) const { return v[at(forwarded_[c])]; }
  [[nodiscard]] double shed(std::size_t c, const std::vector<double>& v) const { return v[at(shed_[c])]; }
  [[nodiscard]] bool served(std::size_t c) const { return served_[c]; }
  static std::size_t at(int variable) { return static_cast<std::size_t>(variable); }

 private:
  void add_degree(std::size_t pool, std::span<const PowerSegment> segments, double most_load,
                  std::vector<Milp::Term>& gpus) {
    const int tp = segments[0].tp;
    std::vector<Milp::Term> switches;
    for (const PowerSegment& s : segments) {
      const double fit = static_cast<double>(problem_.gpus) / tp;
      constexpr double kRound = 1e-9;
      const double most = std::floor(s.from_per_s > 0.0 ? std::min(fit, most_load / s.from_per_s + kRound) : fit);
      if (most < 1.0) continue;
      const Use use{pool, s, program_.variable(0, most, s.fixed_w - tp * problem_.unused_gpu.value(), Domain::Integer),
                    program_.variable(0, std::min(most_load, most * s.to_per_s), s.w_per_load)};
      program_.row(-kNoLimit, 0.0, {{use.load, 1.0}, {use.instances, -s.to_per_s}});
      if (s.from_per_s > 0.0) program_.row(-kNoLimit, 0.0, {{use.instances, s.from_per_s}, {use.load, -1.0}});
      gpus.push_back({use.instances, static_cast<double>(tp)});
      if (segments.size() > 1) {
        const int on = program_.variable(0, 1, 0.0, Domain::Integer);
        program_.row(-kNoLimit, 0.0, {{use.instances, 1.0}, {on, -most}});
        switches.push_back({on, 1.0});
      }
      uses_.push_back(use);
    }
    if (!switches.empty()) program_.row(-kNoLimit, 1.0, switches);
  }

  /// What a pool serves, sends on and sheds is what arrives and what the smaller pool sends on.
  void add_balance(std::size_t c) {
    std::vector<Milp::Term> terms = {{forwarded_[c], 1.0}, {shed_[c], 1.0}};
    for (const Use& use : uses_) {
      if (use.pool == c) terms.push_back({use.load, 1.0});
    }
    for (std::size_t from = 0; from < c; ++from) {
      if (from + problem_.classes[from].next == c)
        terms.push_back({forwarded_[from], -problem_.classes[from].load_in_next});
    }
    program_.row(problem_.classes[c].load_per_s, problem_.classes[c].load_per_s, terms);
  }

  MilpSolution shed_least(const MilpOptions& milp) {
    std::vector<double> costs;
    std::vector<Milp::Term> all;
    for (int i = 0; i < program_.variables(); ++i) {
      costs.push_back(program_.cost(i));
      program_.set_cost(i, 0.0);
    }
    for (const int variable : shed_) {
      program_.set_bounds(variable, 0.0, kNoLimit);
      program_.set_cost(variable, 1.0);
      all.push_back({variable, 1.0});
    }
    const MilpSolution least = solve(program_, milp);
    if (!least.found()) return least;
    for (std::size_t i = 0; i < costs.size(); ++i) program_.set_cost(static_cast<int>(i), costs[i]);
    constexpr double kSlack = 1e-7;
    program_.row(-kNoLimit, least.cost + kSlack, all);
    return solve(program_, milp, least.values);
  }

  const ShardingProblem& problem_;
  Milp program_;
  std::vector<Use> uses_;
  std::vector<int> forwarded_, shed_;
  std::vector<bool> served_;
};

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Power of all groups and of the GPUs that none uses.
Watts total_power(const ShardingProblem& problem, const std::vector<InstanceGroup>& groups) {
  Watts power;
  int used = 0;
  for (const InstanceGroup& group : groups) {
    power += group.power * group.instances;
    used += group.tp * group.instances;
  }
  const int on = problem.gpus_per_node > 0 ? nodes_of(problem, used) * problem.gpus_per_node : problem.gpus;
  return power + problem.unused_gpu * (on - used);
}

/// Which classes are shed, and why where their limits are to blame.
std::string shed_reason(const ShardingProblem& problem, const std::vector<double>& shed_per_s, bool top_clock_only) {
  std::string reason;
  for (std::size_t c = 0; c < shed_per_s.size(); ++c) {
    if (shed_per_s[c] <= 0.0) continue;
    const ShardClass& one = problem.classes[c];
    const bool served = !least_power(one.profiles, one.limits, top_clock_only).empty();
    reason += fmt::format("{}{:.4g}/s of {} shed: {}", reason.empty() ? "" : "; ", shed_per_s[c], one.name,
                          served ? fmt::format("{} GPUs carry no more", problem.gpus)
                                 : "no configuration meets its limits, " + nearest_profile(one.profiles, one.limits));
  }
  return reason;
}

constexpr double kRound = 1e-9;

/// With its instances at the largest TP that fits and the highest clock.
double node_carries(const ShardClass& one, int gpus_per_node) {
  const int tp = node_tp(one.profiles, gpus_per_node);
  const ShardProfile* best = nullptr;
  for (const ShardProfile& profile : one.profiles) {
    if (profile.tp == tp && (best == nullptr || profile.clock > best->clock)) best = &profile;
  }
  if (best == nullptr) return 0.0;
  return most_load(*best, one.limits).value_or(0.0) * std::floor(static_cast<double>(gpus_per_node) / best->tp);
}

/// The hierarchy, level by level.
class Levels {
 public:
  Levels(const ShardingProblem& problem, const LevelOptions& levels, const ShardingOptions& options)
      : problem_(problem), levels_(levels), options_(options) {}

  Result<ShardingPlan> run() {
    auto orders = levels_.cluster_solves_whole ? by_whole() : by_nodes();
    if (!orders) return std::unexpected(orders.error());
    for (std::size_t c = 0; c < orders->size(); ++c) {
      if (auto ok = pool(c, (*orders)[c].load, (*orders)[c].gpus); !ok) return std::unexpected(ok.error());
    }
    plan_.power = total_power(problem_, plan_.groups);
    plan_.status = sum(plan_.shed_per_s) > 0.0 ? ShardingStatus::Shed : ShardingStatus::Planned;
    plan_.reason = plan_.status == ShardingStatus::Shed ? shed_reason(problem_, plan_.shed_per_s, true)
                                                        : "cluster, pools and instances in turn";
    return std::move(plan_);
  }

 private:
  /// What the cluster manager passes to a pool's.
  struct Order {
    double load = 0.0;
    int gpus = 0;
  };

  Result<std::vector<Order>> by_nodes() {
    std::vector<Order> orders;
    for (const NodeShare& share : share_nodes(problem_, levels_.gpus_per_node)) {
      plan_.forwarded_per_s.push_back(share.forwarded_per_s);
      plan_.shed_per_s.push_back(share.shed_per_s);
      orders.push_back(
          {share.arriving_per_s - share.forwarded_per_s - share.shed_per_s, share.nodes * levels_.gpus_per_node});
    }
    return orders;
  }

  Result<std::vector<Order>> by_whole() {
    const auto whole = plan_sharding(problem_, options_);
    if (!whole) return std::unexpected(whole.error());
    plan_.nodes += whole->nodes;
    std::vector<Order> orders(problem_.classes.size());
    plan_.forwarded_per_s = whole->forwarded_per_s;
    plan_.shed_per_s = whole->shed_per_s;
    plan_.forwarded_per_s.resize(orders.size());
    plan_.shed_per_s.resize(orders.size());
    for (const InstanceGroup& group : whole->groups) {
      orders[group.pool].load += group.load_per_s * group.instances;
      orders[group.pool].gpus += group.tp * group.instances;
    }
    return orders;
  }

  Result<void> pool(std::size_t c, double load, int gpus) {
    if (gpus == 0 || load <= 0.0) return {};
    ShardingProblem own;
    own.classes = {problem_.classes[c]};
    own.classes[0].load_per_s = load;
    own.gpus = gpus;
    own.unused_gpu = problem_.unused_gpu;
    own.gpus_per_node = problem_.gpus_per_node;
    ShardingOptions options = options_;
    options.top_clock_only = levels_.pools_at_top_clock;
    const auto split = plan_sharding(own, options);
    if (!split) return std::unexpected(split.error());
    plan_.nodes += split->nodes;
    for (InstanceGroup group : split->groups) {
      group.pool = c;
      slow_down(group);
      plan_.groups.push_back(group);
    }
    plan_.shed_per_s[c] += sum(split->shed_per_s);
    return {};
  }

  /// Instance manager: drops the clocks that miss the limits at this load, takes the least power of the rest.
  void slow_down(InstanceGroup& group) const {
    const ShardClass& one = problem_.classes[group.pool];
    for (const ShardProfile& profile : one.profiles) {
      if (profile.tp != group.tp) continue;
      const auto point = at_load(profile, group.load_per_s);
      if (!point || point->ttft > one.limits.ttft || point->tbt > one.limits.tbt || point->power >= group.power)
        continue;
      group.clock = profile.clock;
      group.power = point->power;
    }
  }

  const ShardingProblem& problem_;
  LevelOptions levels_;
  ShardingOptions options_;
  ShardingPlan plan_;
};

}  // namespace

Result<ShardingPlan> plan_sharding(const ShardingProblem& problem, const ShardingOptions& options) {
  if (auto ok = check(problem); !ok) return std::unexpected(ok.error());
  ShardingModel model(problem, options);
  const MilpSolution solution = model.optimise(options);
  ShardingPlan plan;
  plan.nodes = solution.nodes;
  if (!solution.found()) {
    plan.reason = fmt::format("the solver says {}", milp_status_name(solution.status));
    return plan;
  }
  for (const auto& use : model.uses()) {
    const int instances = static_cast<int>(std::lround(solution.values[ShardingModel::at(use.instances)]));
    if (instances == 0) continue;
    const double load = std::clamp(solution.values[ShardingModel::at(use.load)] / instances, use.segment.from_per_s,
                                   use.segment.to_per_s);
    plan.groups.push_back({use.pool, use.segment.tp, use.segment.clock, instances, load,
                           Watts(use.segment.fixed_w + use.segment.w_per_load * load)});
  }
  constexpr double kNothing = 1e-6;  // the solver's tolerance
  for (std::size_t c = 0; c < problem.classes.size(); ++c) {
    plan.forwarded_per_s.push_back(model.forwarded(c, solution.values));
    const double shed = model.shed(c, solution.values);
    plan.shed_per_s.push_back(shed > kNothing ? shed : 0.0);
  }
  plan.power = total_power(problem, plan.groups);
  const double constant = problem.gpus_per_node > 0 ? 0.0 : problem.unused_gpu.value() * problem.gpus;
  plan.bound = std::min(plan.power, Watts(solution.bound + constant));
  plan.status = sum(plan.shed_per_s) > 0.0 ? ShardingStatus::Shed : ShardingStatus::Planned;
  plan.reason = plan.status == ShardingStatus::Shed      ? shed_reason(problem, plan.shed_per_s, options.top_clock_only)
                : solution.status == MilpStatus::Optimal ? "optimal within the gap"
                                                         : "best found within the limit";
  return plan;
}

int node_tp(const std::vector<ShardProfile>& profiles, int gpus_per_node) {
  int tp = 0;
  for (const ShardProfile& profile : profiles) {
    if (profile.tp <= gpus_per_node) tp = std::max(tp, profile.tp);
  }
  return tp;
}

std::vector<NodeShare> share_nodes(const ShardingProblem& problem, int gpus_per_node, NodeRounding rounding) {
  std::vector<NodeShare> shares;
  int nodes_left = problem.gpus / gpus_per_node;
  std::vector<double> sent_on(problem.classes.size(), 0.0);  // to it
  for (std::size_t c = 0; c < problem.classes.size(); ++c) {
    const ShardClass& one = problem.classes[c];
    const bool last = c + one.next >= problem.classes.size() || !one.forwards;
    const double load = one.load_per_s + sent_on[c];
    const double carries = node_carries(one, gpus_per_node);
    const bool up = last || rounding == NodeRounding::Up;
    double nodes = carries > 0.0 ? load / carries : 0.0;
    nodes = std::min(up ? std::ceil(nodes - kRound) : std::floor(nodes + kRound), static_cast<double>(nodes_left));
    nodes_left -= static_cast<int>(nodes);
    double rest = std::max(0.0, load - nodes * carries);
    if (rest <= kRound * std::max(1.0, load)) rest = 0.0;
    shares.push_back({static_cast<int>(nodes), load, last ? 0.0 : rest, last ? rest : 0.0});
    if (!last) sent_on[c + one.next] += rest * one.load_in_next;
  }
  if (rounding == NodeRounding::Down) return shares;
  const auto shed = [](const std::vector<NodeShare>& of) {
    return std::accumulate(of.begin(), of.end(), 0.0,
                           [](double all, const NodeShare& s) { return all + s.shed_per_s; });
  };
  auto together = shed(shares) > 0.0 ? share_nodes(problem, gpus_per_node, NodeRounding::Down) : shares;
  return shed(together) < shed(shares) ? together : shares;
}

Result<ShardingPlan> plan_by_levels(const ShardingProblem& problem, const LevelOptions& levels,
                                    const ShardingOptions& options) {
  if (auto ok = check(problem); !ok) return std::unexpected(ok.error());
  if (levels.gpus_per_node < 1) return bad_input("gpus_per_node", "must be at least 1");
  return Levels(problem, levels, options).run();
}

}  // namespace wattle::plan
