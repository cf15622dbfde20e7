// DynamoLLM: cluster and pool managers plan the fleet, and an instance manager per engine chooses its clock, all by one
// profile of the model.
#include <array>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include <algorithm>

#include "managers/hierarchy.h"
#include "managers/instance_manager.h"
#include "systems/learned_reserve_options.h"
#include "systems/registry.h"

namespace wattle::config {

template <>
struct Codec<managers::NodeRule> : NamedCodec<managers::NodeRule, Codec<managers::NodeRule>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, managers::NodeRule>>(
        {{"down", managers::NodeRule::Down}, {"up", managers::NodeRule::Up}, {"whole", managers::NodeRule::Whole}});
  }
};

}  // namespace wattle::config

namespace wattle::systems {

namespace {

using config::option;
using managers::InstanceManagerOptions;
using managers::NodeRule;

constexpr const char* kName = "dynamollm";
constexpr config::Bounds kShare{0, 0.95};
constexpr config::Bounds kStarting{0, 86'400};

/// managers::HierarchyOptions with its parts side by side, as a recipe writes them.
struct PlannerOptions {
  std::int32_t pools = 0;
  Span epoch = Span::s(1800);
  Span pool_epoch = Span::s(300);
  std::int32_t nodes = 0;
  NodeRule rule = NodeRule::Down;
  bool scales = true;
  bool reshards = true;
  bool top_clock = true;
  bool proactive = true;
  bool out_of_turn = false;
  double subset = 0.5;
  double margin = 0.0;
  bool within_limits = false;
  double pool_margin = 0.0;
  bool bounds_clocks = false;
  double headroom = 0.0;
  Span season = Span::s(604'800);
  Span slot = Span::s(300);
  std::optional<Watts> unused_gpu = {};
  managers::Overheads overheads;
  managers::LearnedReserveOptions reserve;
};

std::vector<config::Option<PlannerOptions>> planner_options() {
  using P = PlannerOptions;
  std::vector<config::Option<PlannerOptions>> all{
      option("pools", &P::pools, "pools", {0, 256},
             "Number of pools; neighbouring classes share one. 0: one pool per class"),
      option("epoch_s", &P::epoch, "s", {1, 604'800},
             "Cluster manager: time between two decisions on nodes (paper: 30 min)"),
      option("pool_epoch_s", &P::pool_epoch, "s", {1, 86'400},
             "Pool managers: time between two decisions on TP degrees (paper: 5 min)"),
      option("nodes", &P::nodes, "nodes", {0, 100'000},
             "Number of nodes in the cluster. 0: the scenario's [[node]]s that the fleet may use or, if it has none, "
             "as many of one largest instance each as the [[fleet]]s' instances have GPUs for"),
      option("rule", &P::rule,
             "How many nodes a pool gets. down: load / capacity of a node, rounded down, and the rest of the load goes "
             "to the next larger pool (paper); up: rounded up, each pool for itself; whole: one optimisation over all "
             "pools, in GPUs (ours)"),
      option("scales", &P::scales,
             "The number of nodes follows the load. Off: it is chosen once, for the expected peak"),
      option("reshards", &P::reshards,
             "TP degrees follow the load. Off: instances keep the degree they were started with"),
      option("top_clock", &P::top_clock,
             "Pool managers plan for instances at their highest clock (paper). Off: at the best clock for the load"),
      option("proactive", &P::proactive, "Start nodes before the epoch that needs them. Off: when it begins"),
      option("out_of_turn", &P::out_of_turn,
             "Both managers also plan again as soon as the load exceeds what they planned for, or what instances "
             "carry. Off: only when their epochs end (paper)"),
      option("subset", &P::subset, "", {0, 1}, "Maximum share of a pool's GPUs that change at the same time"),
      option("margin", &P::margin, "", kShare, "Share of a node's capacity kept free. 0: paper"),
      option(
          "within_limits", &P::within_limits,
          "Do not plan load into pools with looser objectives than its own. Off: any larger pool may take it (paper)"),
      option("pool_margin", &P::pool_margin, "", kShare, "Share of the instances' capacity kept free. 0: paper"),
      option("bounds_clocks", &P::bounds_clocks,
             "Pool managers set a lower bound on their instances' clocks, at which the pool carries its load. Off: "
             "instance managers are free (paper)"),
      option("headroom", &P::headroom, "", {0, 10}, "Share added to the expected load"),
      option("season_s", &P::season, "s", {0, 31'536'000},
             "Period of the load template used as forecast (paper: one week). Until a whole period is known, the "
             "recent peak is used"),
      option("slot_s", &P::slot, "s", {1, 86'400},
             "Resolution of the load history, which keeps the highest rate of each slot"),
      option("unused_gpu_w", &P::unused_gpu, "W", {0, 10'000},
             "Power of a GPU without an instance on a node in use. none: node.idle_gpu_w of the scenario"),
  };
  using O = managers::Overheads;
  config::append<PlannerOptions>(
      all, "", {&P::overheads},
      {option("vm_s", &O::vm, "s", kStarting, "Starting a VM (paper, Table V)"),
       option("gpu_init_s", &O::gpus, "s", kStarting, "Setting up the multi-GPU environment (paper, Table V)"),
       option("weights_s", &O::weights, "s", kStarting, "Downloading the weights (paper, Table V)"),
       option("engine_s", &O::engine, "s", kStarting, "Setting up the engine (paper, Table V)"),
       option("install_s", &O::install, "s", kStarting, "Loading weights and KV cache onto the GPUs (paper, Table V)"),
       option("snapshot", &O::snapshot, "VMs start from a snapshot, which saves gpu_init_s and engine_s"),
       option("local_cache", &O::local_cache, "Weights are cached in the cluster, which saves weights_s")});
  config::append<PlannerOptions>(all, "reserve_", {&P::reserve}, learned_reserve_options());
  return all;
}

/// Both managers share classes out over pools by the same profile.
Result<void> check_pools(std::int32_t pools, const Making& making) {
  if (making.loads == nullptr) return making.refuse("policy", "dynamollm plans by a load profile; none is given here");
  const std::size_t classes = making.loads->classes.size() / static_cast<std::size_t>(making.loads->tiers);
  if (static_cast<std::size_t>(pools) <= classes) return {};
  return making.refuse("pools", fmt::format("is {}; the scenario has {} class{}", pools, classes,
                                            classes == 1 ? "; [classes] says how requests are sorted" : "es"));
}

/// Nodes as instances of the largest shape fill them. Where they differ, in units of the smallest that holds one.
void set_nodes(managers::ClusterOptions& to, std::int32_t nodes, const ScalingInputs& from) {
  int largest = 0;
  for (const policy::Shape& shape : from.shapes) largest = std::max(largest, shape.gpus);
  to.gpus_per_node = 0;
  for (const std::int32_t gpus : from.cluster.node_gpus) {
    if (gpus >= largest && (to.gpus_per_node == 0 || gpus < to.gpus_per_node)) to.gpus_per_node = gpus;
  }
  if (to.gpus_per_node == 0) to.gpus_per_node = largest;
  to.nodes = 0;
  for (const std::int32_t gpus : from.cluster.node_gpus) to.nodes += gpus / to.gpus_per_node;
  if (nodes > 0) to.nodes = nodes;
}

Result<std::shared_ptr<managers::Hierarchy>> make_planner(const PlannerOptions& o, const Making& making) {
  if (const auto fits = check_pools(o.pools, making); !fits) return std::unexpected(fits.error());
  managers::HierarchyOptions made;
  made.pools = static_cast<std::size_t>(o.pools);
  made.lowest_clocks = making.scaling.lowest_clocks;
  made.cluster = {.epoch = o.epoch,
                  .rule = o.rule,
                  .scales = o.scales,
                  .margin = o.margin,
                  .unused_gpu = o.unused_gpu.value_or(making.scaling.cluster.unused_gpu),
                  .within_limits = o.within_limits,
                  .load = {}};
  set_nodes(made.cluster, o.nodes, making.scaling);
  if (made.cluster.nodes == 0) {
    return making.refuse("nodes", fmt::format("is 0, and the scenario has no GPUs for an instance of {}: state its "
                                              "[[node]]s, or a fleet.count",
                                              made.cluster.gpus_per_node));
  }
  made.cluster.out_of_turn = made.pool.out_of_turn = o.out_of_turn;
  made.cluster.load.season = o.season;
  made.cluster.load.slot = o.slot;
  made.cluster.load.headroom = o.headroom;
  made.pool.epoch = o.pool_epoch;
  made.pool.reshards = o.reshards;
  made.pool.top_clock = o.top_clock;
  made.pool.subset = o.subset;
  made.pool.margin = o.pool_margin;
  made.pool.bounds_clocks = o.bounds_clocks;
  made.pool.unused_gpu = made.cluster.unused_gpu;
  made.pool.reshard = making.scaling.cluster.reshard;
  made.overheads = o.overheads;
  made.reserve = o.reserve;
  made.proactive = o.proactive;
  made.past = making.scaling.past;
  return std::make_shared<managers::Hierarchy>(making.loads, making.scaling.shapes, std::move(made));
}

std::vector<config::Option<InstanceManagerOptions>> clock_options() {
  using I = InstanceManagerOptions;
  return {
      option("epoch_s", &I::epoch, "s", {0.1, 3600}, "Time between two decisions (paper: 5 s)"),
      option("memory_s", &I::memory, "s", {0.1, 3600}, "Time over which the load is averaged (paper: the epoch)"),
      option("margin", &I::margin, "", kShare, "Share of a clock's capacity kept free. 0: paper"),
      option("queue", &I::queue, "Use the highest clock while requests wait that no step takes in"),
      option("pools", &I::pools, "pools", {0, 256}, "Number of pools, as in [scaling]. 0: the value there"),
  };
}

}  // namespace

void register_dynamollm(Registry& to) {
  to.add<PlannerOptions>(SlotKind::Scaling, kName,
                         "DynamoLLM: nodes per class every half hour, TP degrees per pool every five minutes",
                         planner_options())
      .needs({.load_profile = true})
      .makes(make_planner);
  to.add<InstanceManagerOptions>(
        SlotKind::Frequency, kName,
        "DynamoLLM: the clock of least energy among those that meet the objectives at the present load",
        clock_options())
      .needs({.load_profile = true})
      .makes([](const InstanceManagerOptions& o,
                const Making& making) -> Result<std::shared_ptr<policy::FrequencyPolicy>> {
        InstanceManagerOptions own = o;
        const PolicyChoice& planner = making.recipe.scaling;
        if (planner.policy == kName) {
          const std::int32_t planned = options_of<PlannerOptions>(planner).pools;
          if (own.pools == 0) own.pools = planned;
          if (own.pools != planned) {
            return making.refuse("pools", fmt::format("is {}, and scaling.pools is {}: both managers share classes out "
                                                      "over the same pools",
                                                      own.pools, planned));
          }
        }
        if (const auto fits = check_pools(own.pools, making); !fits) return std::unexpected(fits.error());
        return std::make_shared<managers::InstanceManager>(own, making.loads, *making.spec);
      });
}

}  // namespace wattle::systems
