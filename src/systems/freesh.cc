// FREESH: pools across sites every half hour, MIAD on each node, and queueing by predicted service time.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "managers/site_pools.h"
#include "policy/frequency/miad.h"
#include "policy/frequency/primal_dual_clock.h"
#include "policy/queueing/laxity.h"
#include "policy/routing/weighted_round_robin.h"
#include "systems/freesh_modes.h"
#include "systems/freesh_release.h"
#include "systems/learned_reserve_options.h"
#include "systems/registry.h"

namespace wattle::systems {

/// The forecaster of a series (predict/forecast/forecaster.h).
enum class Outlook : std::uint8_t { Last, Season, Template, Kalman, Ridge, Given };

}  // namespace wattle::systems

namespace wattle::config {

template <>
struct Codec<plan::PoolsFormulation> : NamedCodec<plan::PoolsFormulation, Codec<plan::PoolsFormulation>> {
  static constexpr auto names() {
    return std::to_array<std::pair<std::string_view, plan::PoolsFormulation>>(
        {{"published", plan::PoolsFormulation::Published}, {"wattle", plan::PoolsFormulation::Wattle}});
  }
};

template <>
struct Codec<systems::Outlook> : NamedCodec<systems::Outlook, Codec<systems::Outlook>> {
  static constexpr auto names() {
    using systems::Outlook;
    return std::to_array<std::pair<std::string_view, Outlook>>({{"last", Outlook::Last},
                                                                {"season", Outlook::Season},
                                                                {"template", Outlook::Template},
                                                                {"kalman", Outlook::Kalman},
                                                                {"ridge", Outlook::Ridge},
                                                                {"given", Outlook::Given}});
  }
};

}  // namespace wattle::config

namespace wattle::systems {

namespace {

using config::option;
using policy::MiadOptions;
using policy::PrimalDualOptions;
using policy::ServiceOptions;

constexpr config::Bounds kTime{0, 3'600'000};
constexpr double kKwhPerMwh = 1000.0;

/// For policies whose options contain LatencyLimitOptions.
template <typename Options>
std::vector<config::Option<Options>> limit_options() {
  using L = policy::LatencyLimitOptions;
  const auto in = []<typename T>(T L::*field) -> T Options::* { return field; };
  return {
      option("tbt_ms", in(&L::tbt), "ms", kTime, "A gap between two tokens above this is congestion"),
      option("ttft_short_ms", in(&L::ttft_short), "ms", kTime,
             "A TTFT above this is congestion, for prompts of up to short_prompt tokens"),
      option("ttft_long_ms", in(&L::ttft_long), "ms", kTime, "The same for longer prompts"),
      option("short_prompt", in(&L::short_prompt), "tokens", {0, 10'000'000},
             "Longest prompt to which ttft_short_ms applies"),
      option("margin", in(&L::margin), "", {0, 0.95}, "Share of each limit and objective kept in reserve"),
      option("objectives", in(&L::objectives),
             "Also use the SLO as a limit on colocated instances, where it is stricter. Prefill and decode instances "
             "always do"),
      option("mean_gap_ms", in(&L::mean_gap_ms), "ms", {1, 3'600'000},
             "List by pool number (with a planner of pools: by class): a mean token gap above this over a period is "
             "congestion. Use it to turn an E2E objective into a limit per token of the mean answer"),
  };
}

std::vector<config::Option<MiadOptions>> miad_options() {
  using M = MiadOptions;
  std::vector<config::Option<M>> all{
      option("factor", &M::factor, "", {1.01, 100}, "M in the paper: factor by which the clock rises on congestion"),
      option("decrease_mhz", &M::decrease, "MHz", {1, 10'000},
             "Delta in the paper: amount by which the clock falls without congestion"),
      option("floor_mhz", &M::floor, "MHz", {0, 10'000}, "Lowest clock to use"),
      option("period_ms", &M::period, "ms", {1, 3'600'000}, "Time between two decisions"),
      option(
          "quantile", &M::quantile, "", {0, 1},
          "Share of a period's latencies that must be within the limits. 1: a single one above is congestion (paper)"),
  };
  const auto limits = limit_options<M>();
  all.insert(all.end(), limits.begin(), limits.end());
  return all;
}

std::vector<config::Option<PrimalDualOptions>> primal_dual_options() {
  using P = PrimalDualOptions;
  std::vector<config::Option<P>> all{
      option(
          "price", &P::price, "1/W", {1e-9, 1e6},
          "Beta in the paper: price of power. At 0.01 one watt is worth as much as one percent of one request's speed"),
      option("gain", &P::gain, "", {1e-4, 0.5},
             "k in the paper: relative step size by which rates, clock and dual price change in each of the 50 "
             "iterations per second"),
      option("floor_mhz", &P::floor, "MHz", {0, 10'000}, "Lowest clock to use"),
      option("period_ms", &P::period, "ms", {1, 3'600'000},
             "Time between two clock commands. Rates and prices are updated continuously"),
  };
  const auto limits = limit_options<P>();
  all.insert(all.end(), limits.begin(), limits.end());
  return all;
}

std::unique_ptr<predict::Forecaster> forecaster_of(Outlook outlook, std::size_t season, std::size_t horizon) {
  switch (outlook) {
    case Outlook::Last:
    case Outlook::Given:
      break;
    case Outlook::Season:
      return predict::make_seasonal_naive(season);
    case Outlook::Template:
      return predict::make_template({.period = season});
    case Outlook::Kalman:
      return predict::make_kalman({.period = season});
    case Outlook::Ridge:
      return predict::make_ridge({.horizon = horizon, .period = season});
  }
  return nullptr;
}

/// managers::SitePoolsOptions with its parts side by side, as a recipe writes them.
struct SitePlannerOptions {
  Span epoch = Span::s(1800);
  Span slot = Span::s(300);
  plan::PoolsFormulation formulation = plan::PoolsFormulation::Wattle;
  plan::PoolsObjective objective;
  double alpha = 1.1;
  double beta = 1.0;
  bool replans = true;
  bool out_of_turn = false;
  bool cleanest = false;
  bool pooled = false;
  bool weighs = false;
  bool sweet = false;
  std::int32_t tensor_parallel = 0;
  std::vector<std::string> pairs;
  std::string ratings;
  std::string partition = "2";
  std::vector<std::int32_t> partition_prompts;
  std::vector<std::int32_t> partition_outputs;
  std::string demand;
  std::int32_t demand_from = 0;
  Outlook traffic = Outlook::Last;
  Outlook emissions = Outlook::Last;
  Span season = Span::s(86'400);
  managers::LearnedReserveOptions reserve;
};

std::vector<config::Option<SitePlannerOptions>> site_planner_options() {
  using P = SitePlannerOptions;
  using O = plan::PoolsObjective;
  constexpr config::Bounds kWeight{0, 1e6};
  std::vector<config::Option<SitePlannerOptions>> all{
      option("epoch_s", &P::epoch, "s", {1, 604'800}, "Time between two plans, a multiple of slot_s (paper: 30 min)"),
      option("slot_s", &P::slot, "s", {1, 86'400}, "Resolution of forecasts (paper: 5 min)"),
      option("formulation", &P::formulation,
             "Integer program. published: every worker draws its peak power, and negative carbon intensity rewards "
             "consumption; wattle: power follows load, idling is not rewarded, starts have a cost, and demand beyond "
             "capacity is shed and reported. If published is infeasible, wattle is solved instead"),
      option("alpha", &P::alpha, "", {1, 100}, "Planned capacity as a multiple of the expected demand (paper: 1.1)"),
      option("beta", &P::beta, "", {0.01, 100}, "Expected peaks are divided by this before planning"),
      option("replans", &P::replans, "Plan again in every epoch. Off: the first plan stays in force"),
      option("out_of_turn", &P::out_of_turn,
             "Also plan again as soon as demand exceeds both the plan and what the workers carry. Off: only when an "
             "epoch ends (paper)"),
      option("cleanest", &P::cleanest,
             "Place workers at as few sites as can carry the demand, cleanest first. Off: the integer program chooses "
             "the sites"),
      option("pooled", &P::pooled,
             "Any worker serves any class, and the number of workers follows the mix of classes. Off: each class has "
             "its own workers"),
      option("weighs", &P::weighs,
             "Weight routing within a pool by the capacity that each worker was rated for when it started. Off: by "
             "fleet.weight (of a pair: its prefill instance's)"),
      option("tensor_parallel", &P::tensor_parallel, "GPUs", {0, 1024}, "Plan only workers of this TP degree. 0: any"),
      option("pairs", &P::pairs,
             "Prefill/decode pairs to plan as workers, written as the GPUs of both, prefill first: a100-80g+h100; all: "
             "every possible pair. Both [[fleet]]s must be at the same site; they are started and drained together"),
      option("ratings", &P::ratings,
             "CSV of each worker's capacity and power in the format of FREESH's release, looked up in WATTLE_DATA. "
             "Empty: measured on the simulated engines"),
      option("partition", &P::partition,
             "With ratings: the partition whose rows to use. If partition_prompt_below lists several, each uses the "
             "rows of its number, from 1"),
      option("partition_prompt_below", &P::partition_prompts, "tokens", {1, 10'000'000},
             "Prompt borders of the partitions from which every plan chooses one (paper: 184 and 25), each one of "
             "[classify]'s borders. Empty: the classes of [classify] are the only partition"),
      option("partition_output_below", &P::partition_outputs, "tokens", {1, 10'000'000},
             "Answer borders of the same partitions, in the same order (paper: 444 and 232)"),
      option("demand", &P::demand,
             "CSV of expected peaks in the format of FREESH's release (ss_qps, ...), one row per slot, looked up in "
             "WATTLE_DATA. Empty: forecast by traffic"),
      option("demand_from", &P::demand_from, "slots", {0, 1'000'000}, "With demand: row at which the run starts"),
      option("traffic", &P::traffic,
             "Forecast of each class's peaks: last (value), season (value one season ago), template, kalman or ridge; "
             "see docs/forecasting.md. last is used until two seasons have been observed"),
      option("emissions", &P::emissions,
             "The same for each site's carbon intensity and electricity price, for which seasons before the run count "
             "as observed. given: the actual future values, a forecast without error"),
      option("season_s", &P::season, "s", {1, 8'640'000}, "Season of both forecasts, a multiple of slot_s"),
      option("sweet", &P::sweet, "Rate workers at their clock of least energy per token. Off: at the highest clock"),
  };
  config::append<SitePlannerOptions>(all, "reserve_", {&P::reserve}, learned_reserve_options());
  config::append<SitePlannerOptions>(
      all, "objective.", {&P::objective},
      {option("carbon", &O::carbon, "", kWeight, "Weight of carbon emissions (marginal intensity)"),
       option("energy", &O::energy, "", kWeight, "Weight of energy"),
       option("cost", &O::cost, "", kWeight, "Weight of electricity cost. Needs a price at one [[site]] or more")});
  return all;
}

constexpr const char* kRatedTurns = "freesh";

struct RatedTurnsOptions {
  std::string ratings;
  std::string partition = "2";
  std::int32_t max_in_flight_per_gpu = 0;
};

managers::SitePoolsOptions site_pools_options(const SitePlannerOptions& o) {
  managers::SitePoolsOptions options;
  options.planning.formulation = o.formulation;
  options.planning.objective = o.objective;
  options.planning.alpha = o.alpha;
  options.epoch = o.epoch;
  options.slot = o.slot;
  options.beta = o.beta;
  options.replans = o.replans;
  options.out_of_turn = o.out_of_turn;
  options.cleanest = o.cleanest;
  options.pooled = o.pooled;
  options.weighs = o.weighs;
  options.reserve = o.reserve;
  return options;
}

/// Routing is not informed of the partition in force.
bool bounds_one_partition(const PolicyChoice& routing) {
  return routing.policy == kRatedTurns && !options_of<RatedTurnsOptions>(routing).ratings.empty();
}

/// The partitions to choose among; empty: the recipe's classes are the only one.
Result<std::vector<Classifier>> listed_partitions(const SitePlannerOptions& o, const Making& making) {
  std::vector<Classifier> listed;
  if (o.partition_prompts.size() != o.partition_outputs.size()) {
    return making.refuse("partition_output_below", "has not one border for each of partition_prompt_below");
  }
  if (o.partition_prompts.empty()) return listed;
  if (o.pooled) return making.refuse("pooled", "with partitions to choose among there is a pool for each type");
  if (!o.demand.empty()) return making.refuse("demand", "is of one partition, and there are several to choose among");
  if (bounds_one_partition(making.recipe.route_prefill)) {
    return making.refuse("partition_prompt_below",
                         "routing.ratings bounds workers as of one partition, and there are several to choose among");
  }
  const auto& classes = making.recipe.classes;
  for (std::size_t k = 0; k < o.partition_prompts.size(); ++k) {
    const std::int32_t prompt = o.partition_prompts[k], output = o.partition_outputs[k];
    if (std::ranges::find(classes.prompt_below, prompt) == classes.prompt_below.end()) {
      return making.refuse("partition_prompt_below", fmt::format("{} is none of classify.prompt_below", prompt));
    }
    if (std::ranges::find(classes.output_below, output) == classes.output_below.end()) {
      return making.refuse("partition_output_below", fmt::format("{} is none of classify.output_below", output));
    }
    listed.emplace_back(std::vector{prompt}, std::vector{output});
  }
  return listed;
}

/// Which of a partition's types each class is of. Every border of `partition` is one of `classes`.
std::vector<std::size_t> types_by_class(const Classifier& classes, const Classifier& partition) {
  std::vector<std::size_t> types;
  const auto from = [](const std::vector<std::int32_t>& below, std::int32_t i) {
    return i == 0 ? 0 : below[static_cast<std::size_t>(i - 1)];
  };
  for (std::int32_t p = 0; p < classes.prompts(); ++p) {
    for (std::int32_t a = 0; a < classes.outputs(); ++a) {
      const ClassId type = partition.of(from(classes.prompt_below(), p), from(classes.output_below(), a));
      types.push_back(static_cast<std::size_t>(type.value()));
    }
  }
  return types;
}

/// By a file's ratings, which are of loads whatever the limits: those that a type's classes all keep hold.
Result<void> rate_by_file(const SitePlannerOptions& o, const SiteFleet& fleet, const std::vector<PoolMode>& modes,
                          const std::string& partition, const std::vector<std::size_t>& type_of,
                          std::vector<plan::PoolType>& types) {
  const auto released = read_ratings(o.ratings, partition);
  if (!released) return std::unexpected(released.error());
  for (std::size_t c = 0; c < type_of.size(); ++c) {
    const auto& limits = any_loads(fleet).classes[c].limits;
    auto& type = types[type_of[c]];
    type.ttft_limit = std::min(type.ttft_limit, limits.ttft);
    type.tbt_limit = std::min(type.tbt_limit, limits.tbt);
  }
  for (auto& type : types) {
    type.ratings.clear();
    for (const auto& mode : modes) {
      const auto found = released->find(
          fmt::format("{} {} TP{}", type.name, released_kind(fleet.kinds[mode.of.kind].gpu), mode.of.tensor_parallel));
      type.ratings.push_back(found == released->end() ? std::nullopt : std::optional(found->second));
    }
  }
  return {};
}

/// The partitions of the problem, and which of their types classes are of.
Result<void> add_partitions(const SitePlannerOptions& o, const Making& making, const std::vector<PoolMode>& modes,
                            managers::SitePoolsSetup& setup) {
  const SiteFleet& fleet = *making.scaling.sites;
  const auto listed = listed_partitions(o, making);
  if (!listed) return std::unexpected(listed.error());
  auto& partitions = setup.problem.partitions;
  auto classes = measured_types(fleet, modes, o.sweet);
  setup.may_be_late = may_be_late(modes, o.reserve.late);
  if (listed->empty()) {
    auto& types = partitions.emplace_back(making.recipe.name, std::move(classes)).types;
    setup.type_of.emplace_back();
    for (std::size_t c = 0; c < types.size(); ++c) setup.type_of.back().push_back(c);
    if (o.ratings.empty()) return {};
    return rate_by_file(o, fleet, modes, o.partition, setup.type_of.back(), types);
  }
  const Classifier sizes(making.recipe.classes.prompt_below, making.recipe.classes.output_below);
  for (const Classifier& partition : *listed) {
    const std::string number = std::to_string(partitions.size() + 1);
    auto& types = partitions.emplace_back(number, std::vector<plan::PoolType>()).types;
    setup.type_of.push_back(types_by_class(sizes, partition));
    for (std::int32_t t = 0; t < partition.size(); ++t) {
      auto& type = types.emplace_back();
      type.name = partition.name(ClassId(t));
      type.ratings.resize(modes.size());
      keep(fleet, type);
    }
    if (o.ratings.empty()) continue;
    if (auto ok = rate_by_file(o, fleet, modes, number, setup.type_of.back(), types); !ok) return ok;
  }
  if (o.ratings.empty()) setup.classes = std::move(classes);
  return {};
}

std::string shorter(Span than_slot, Span slot) {
  return fmt::format("is {:g}; it must be at least scaling.slot_s, {:g}", than_slot.seconds(), slot.seconds());
}

Result<std::shared_ptr<managers::SitePools>> make_site_planner(const SitePlannerOptions& o, const Making& making) {
  if (making.scaling.sites == nullptr)
    return making.refuse("policy", "freesh plans over a scenario's sites; none are given");
  if (o.epoch < o.slot) return making.refuse("epoch_s", shorter(o.epoch, o.slot));
  if (making.scaling.sites->kept.size() > plan::PoolType::kMostKept) {
    return making.refuse("policy", fmt::format("freesh plans for at most {} different residencies of tenants",
                                               plan::PoolType::kMostKept));
  }
  const SiteFleet& fleet = *making.scaling.sites;
  managers::SitePoolsSetup setup;
  auto& problem = setup.problem;
  for (const auto& kind : fleet.kinds) problem.kinds.push_back(kind.gpu);
  for (const auto& name : fleet.sites)
    problem.sites.push_back({.name = name, .gpus = {}, .intensity = {}, .price_usd_per_kwh = {}});
  if (!o.pairs.empty() && !o.ratings.empty()) return making.refuse("pairs", "scaling.ratings has none");
  const auto modes = add_modes({o.tensor_parallel, o.pairs, o.sweet}, making, setup);
  if (!modes) return std::unexpected(modes.error());
  for (const auto& machine : fleet.nodes) setup.nodes.push_back({machine.site, machine.kind, machine.gpus});
  if (modes->empty()) return making.refuse("tensor_parallel", "no [[fleet]] is of this degree");
  if (auto ok = add_partitions(o, making, *modes, setup); !ok) return std::unexpected(ok.error());
  if (!o.demand.empty()) {
    auto expected = read_demand(o.demand, o.demand_from, problem.partitions.back().types.size());
    if (!expected) return std::unexpected(expected.error());
    setup.expected = std::move(*expected);
  }
  setup.intensity = [known = fleet.intensity](std::size_t site, Instant now) {
    return known(site, now).transform([](GramsPerKwh g) { return g.value(); });
  };
  if (o.objective.cost > 0.0) {
    if (!fleet.price) {
      return making.refuse("objective.cost",
                           "needs a price: no [[site]] has electricity_usd_per_mwh or electricity_file");
    }
    setup.price = [known = fleet.price](std::size_t site, Instant now) {
      return known(site, now).transform([](UsdPerMwh usd) { return usd.value() / kKwhPerMwh; });
    };
  }
  for (const auto& series : making.scaling.past) setup.demand_at_start.push_back(series.empty() ? 0.0 : series.back());
  managers::SitePoolsOptions options = site_pools_options(o);
  if (o.traffic == Outlook::Given) return making.refuse("traffic", "what is given of traffic is the file of demand");
  if (o.season < o.slot) return making.refuse("season_s", shorter(o.season, o.slot));
  const auto season = static_cast<std::size_t>(o.season.ns() / o.slot.ns());
  const auto horizon = static_cast<std::size_t>(o.epoch.ns() / o.slot.ns());
  options.least_history = 2 * season;
  setup.traffic = forecaster_of(o.traffic, season, horizon);
  setup.emissions = forecaster_of(o.emissions, season, horizon);
  setup.prices = forecaster_of(o.emissions, season, horizon);
  if (setup.emissions) setup.past_slots = 3 * season;
  setup.outlook_is_given = o.emissions == Outlook::Given;
  return std::make_shared<managers::SitePools>(std::move(setup), options);
}

Result<void> floor_fits(MegaHertz floor, const Making& making) {
  const GpuSpec& gpu = making.spec->gpu;
  if (floor <= gpu.clock_max) return {};
  return making.refuse("floor_mhz", fmt::format("{} MHz is above the highest clock of {}, {} MHz", floor.value(),
                                                gpu.name, gpu.clock_max.value()));
}

template <typename Order>
void add_order(Registry& to, const char* name, const char* description) {
  using S = ServiceOptions;
  to.add<ServiceOptions>(
        SlotKind::Queueing, name, description,
        {option("ttft_ms", &S::ttft, "ms", kTime, "T_TTFT in the paper: TTFT without queueing"),
         option("tbt_ms", &S::tbt, "ms", kTime, "T_TBT in the paper: mean time between tokens without queueing"),
         option("window", &S::window, "", {0.01, 1000},
                "Alpha in the paper: deadline of a request as a multiple of its service time without queueing"),
         option("preemptive", &S::preemptive,
                "A held request may displace a running one, which is computed again later (simulator only)"),
         option("margin_ms", &S::margin, "ms", kTime, "With preemptive: how much more urgent the held request must be"),
         option("congested_ms", &S::congested, "ms", kTime,
                "llf only: use least laxity while requests wait longer than this before dispatch, and first come, "
                "first served otherwise. 0: always least laxity")})
      .makes([](const ServiceOptions& o, const Making&) -> Result<std::shared_ptr<Order>> {
        return std::make_shared<Order>(o);
      });
}

}  // namespace

void register_freesh(Registry& to) {
  to.add<SitePlannerOptions>(
        SlotKind::Scaling, "freesh",
        "FREESH: an integer program chooses which workers run at which site for which class, every half hour",
        site_planner_options())
      .needs({.sites = true})
      .makes(make_site_planner);
  to.add<MiadOptions>(SlotKind::Frequency, "miad",
                      "FREESH: the clock is multiplied by a factor on congestion and falls by a constant otherwise",
                      miad_options())
      .reserve("margin")
      .admits([](const MiadOptions& o, const Making& making) { return floor_fits(o.floor, making); })
      .makes([](const MiadOptions& o, const Making&) -> Result<std::shared_ptr<policy::Miad>> {
        return std::make_shared<policy::Miad>(o);
      });
  to.add<PrimalDualOptions>(
        SlotKind::Frequency, "primal-dual",
        "FREESH: the primal-dual controller that MIAD approximates. It maximises the sum of log request speeds less "
        "the price of power, by predicted step times and power, subject to the latency limits",
        primal_dual_options())
      .needs({.latency = true})
      .weighs_power([](const PrimalDualOptions&, Role) { return true; })
      .clocks([](const PrimalDualOptions& o, const InstanceSpec& spec) { return policy::clocks_from(o.floor, spec); })
      .reserve("margin")
      .admits([](const PrimalDualOptions& o, const Making& making) { return floor_fits(o.floor, making); })
      .makes([](const PrimalDualOptions& o, const Making& making) -> Result<std::shared_ptr<policy::PrimalDualClock>> {
        return std::make_shared<policy::PrimalDualClock>(o, *making.spec);
      });
  using R = RatedTurnsOptions;
  to.add<R>(SlotKind::Routing, kRatedTurns,
            "FREESH: workers with fewer requests in flight than at their rating take turns, weighted by fleet.weight",
            {option("ratings", &R::ratings,
                    "CSV of worker capacities in the format of FREESH's release, looked up in WATTLE_DATA. A worker "
                    "may have as many requests in flight as at its rating (rate x latency); types are pools, in the "
                    "file's order. Empty: no such limit"),
             option("partition", &R::partition, "With ratings: the partition whose rows to use"),
             option("max_in_flight_per_gpu", &R::max_in_flight_per_gpu, "requests", {0, 1'000'000},
                    "Maximum requests in flight per GPU, for workers without a rating. 0: no limit")})
      .makes([](const R& o, const Making&) -> Result<std::shared_ptr<policy::WeightedRoundRobin>> {
        policy::WeightedRoundRobinOptions turns;
        turns.max_in_flight_per_gpu = o.max_in_flight_per_gpu;
        if (!o.ratings.empty()) {
          auto bounds = read_bounds(o.ratings, o.partition);
          if (!bounds) return std::unexpected(bounds.error());
          turns.bounds = std::move(*bounds);
        }
        return std::make_shared<policy::WeightedRoundRobin>(std::move(turns));
      });
  add_order<policy::EarliestDeadlineFirst>(to, "edf", "Earliest deadline first");
  add_order<policy::ShortestRemainingFirst>(to, "srtf", "Shortest remaining predicted service time first");
  add_order<policy::LeastLaxityFirst>(to, "llf", "FREESH: least laxity first");
}

}  // namespace wattle::systems
