// FREESH: pools across sites every half hour, MIAD on each node, and orders of held requests that know how long service
// takes.
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
#include "systems/registry.h"

namespace wattle::systems {

/// How a series goes on (predict/forecast/forecaster.h).
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

/// Of policies whose options are, among others, LatencyLimitOptions.
template <typename Options>
std::vector<config::Option<Options>> limit_options() {
  using L = policy::LatencyLimitOptions;
  const auto in = []<typename T>(T L::*field) -> T Options::* { return field; };
  return {
      option("tbt_ms", in(&L::tbt), "ms", kTime, "A longer gap between tokens is congestion"),
      option("ttft_short_ms", in(&L::ttft_short), "ms", kTime, "Likewise to the first token of a short prompt"),
      option("ttft_long_ms", in(&L::ttft_long), "ms", kTime, "And of a longer one"),
      option("short_prompt", in(&L::short_prompt), "tokens", {0, 10'000'000}, "The longest short prompt"),
      option("margin", in(&L::margin), "", {0, 0.95}, "Share of each limit and objective kept in reserve"),
      option("objectives", in(&L::objectives),
             "The objectives of what a colocated instance serves are limits, too, where they are stricter; of prefill "
             "and decode instances they always are"),
      option("mean_gap_ms", in(&L::mean_gap_ms), "ms", {1, 3'600'000},
             "By pool (of a planner of pools: the class): a longer gap between tokens in the mean of a period is "
             "congestion; a limit on whole requests over the mean answer"),
  };
}

std::vector<config::Option<MiadOptions>> miad_options() {
  using M = MiadOptions;
  std::vector<config::Option<M>> all{
      option("factor", &M::factor, "", {1.01, 100}, "M: congested, the clock rises by this factor"),
      option("decrease_mhz", &M::decrease, "MHz", {1, 10'000}, "delta: otherwise it falls by this"),
      option("floor_mhz", &M::floor, "MHz", {0, 10'000}, "And no further than this"),
      option("period_ms", &M::period, "ms", {1, 3'600'000}, "Between two decisions"),
      option(
          "quantile", &M::quantile, "", {0, 1},
          "Share of a period's latencies that has to be within; 1: a single one beyond is congestion, as in the paper"),
  };
  const auto limits = limit_options<M>();
  all.insert(all.end(), limits.begin(), limits.end());
  return all;
}

std::vector<config::Option<PrimalDualOptions>> primal_dual_options() {
  using P = PrimalDualOptions;
  std::vector<config::Option<P>> all{
      option("price", &P::price, "1/W", {1e-9, 1e6},
             "beta: what a watt costs; 0.01: as much as one percent of one request's speed is worth"),
      option("gain", &P::gain, "", {1e-4, 0.5},
             "k: how far rates, clock and dual price move in one of 50 iterations a second"),
      option("floor_mhz", &P::floor, "MHz", {0, 10'000}, "No clock below this"),
      option("period_ms", &P::period, "ms", {1, 3'600'000}, "Between two commands; rates and prices move all the time"),
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
};

std::vector<config::Option<SitePlannerOptions>> site_planner_options() {
  using P = SitePlannerOptions;
  using O = plan::PoolsObjective;
  constexpr config::Bounds kWeight{0, 1e6};
  std::vector<config::Option<SitePlannerOptions>> all{
      option("epoch_s", &P::epoch, "s", {1, 604'800}, "Between two plans (paper: 30 min); whole slots"),
      option("slot_s", &P::slot, "s", {1, 86'400}, "Of forecasts (paper: 5 min)"),
      option("formulation", &P::formulation,
             "published: every worker draws its peak power, and negative intensity rewards it; wattle: power follows "
             "load, idling earns nothing, starts cost, what cannot be carried is relaxed and then shed by name, and so "
             "is what "
             "published has no plan for"),
      option("alpha", &P::alpha, "", {1, 100}, "Capacity kept, as a multiple of the demand expected (paper: 1.1)"),
      option("beta", &P::beta, "", {0.01, 100}, "Peaks are divided by this before they are planned for"),
      option("replans", &P::replans, "off: the first plan stays"),
      option(
          "out_of_turn", &P::out_of_turn,
          "Planned again as soon as more comes than was planned for and than workers carry; off: when the epoch ends "
          "(paper)"),
      option(
          "cleanest", &P::cleanest,
          "Workers stand at the cleanest sites that can carry the demand, as few sites as do; off: where it is best"),
      option(
          "pooled", &P::pooled,
          "Any request goes to any worker, and so many are planned as the mix of classes takes; off: a class has its "
          "own"),
      option("weighs", &P::weighs,
             "Workers of a pool take turns by what each carries as it was rated when it started; off: by fleet.weight, "
             "a pair by its prefill instance's"),
      option("tensor_parallel", &P::tensor_parallel, "GPUs", {0, 1024}, "Workers of this TP degree alone; 0: any"),
      option(
          "pairs", &P::pairs,
          "P/D pairs that are workers, too, each by its GPUs, prefill first: a100-80g+h100; all: any there may be. Of "
          "[[fleet]]s of these roles at one site, started and drained together"),
      option("ratings", &P::ratings,
             "CSV of what workers carry and draw, in the columns of FREESH's release, looked up in WATTLE_DATA; empty: "
             "measured on the simulated engines"),
      option("partition", &P::partition,
             "ratings: the rows of this partition; where partition_prompt_below lists several, those of each, by its "
             "number from 1 on"),
      option(
          "partition_prompt_below", &P::partition_prompts, "tokens", {1, 10'000'000},
          "Partitions that every plan chooses one of (paper: 184 and 25): each sorts prompts at its border here, one "
          "of [classify]'s; requests go to pools by the one in force. Empty: [classify]'s classes are the partition"),
      option("partition_output_below", &P::partition_outputs, "tokens", {1, 10'000'000},
             "Likewise each one's border between answers (paper: 444 and 232), in the same order"),
      option(
          "demand", &P::demand,
          "CSV of the peaks that are expected, in the columns of FREESH's release (ss_qps ...), a row for each slot, "
          "looked up in WATTLE_DATA; empty: what was last seen goes on"),
      option("demand_from", &P::demand_from, "slots", {0, 1'000'000}, "demand: the row that the run begins with"),
      option("traffic", &P::traffic,
             "How each class's peaks are thought to go on, once two seasons were seen: last, season (what was a season "
             "ago), template, kalman, ridge (docs/forecasting.md)"),
      option("emissions", &P::emissions,
             "Likewise each site's intensity and price of electricity, of which the seasons before the run count; "
             "given: as "
             "their series go on, a forecast without error"),
      option("season_s", &P::season, "s", {1, 8'640'000}, "Of traffic and emissions; whole slots"),
      option("sweet", &P::sweet, "Workers are rated at the clock of least energy per token; off: at the highest"),
  };
  config::append<SitePlannerOptions>(
      all, "objective.", {&P::objective},
      {option("carbon", &O::carbon, "", kWeight, "Weight of carbon (marginal intensity)"),
       option("energy", &O::energy, "", kWeight, "Of energy"),
       option("cost", &O::cost, "", kWeight, "Of what electricity costs; needs a price at some [[site]]")});
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
  return options;
}

/// Routing does not hear which partition is in force.
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
  if (!o.pairs.empty() && !o.ratings.empty()) return making.refuse("pairs", "scaling.ratings knows none of them");
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
        {option("ttft_ms", &S::ttft, "ms", kTime, "T_TTFT: to the first token where nobody waits"),
         option("tbt_ms", &S::tbt, "ms", kTime, "T_TBT: between tokens"),
         option("window", &S::window, "", {0.01, 1000},
                "alpha: a request is to be done within this many times what it takes where nobody waits"),
         option("preemptive", &S::preemptive,
                "A held request may displace a running one, which comes back and is computed again (simulated)"),
         option("margin_ms", &S::margin, "ms", kTime, "preemptive: by so much more urgent it has to be"),
         option("congested_ms", &S::congested, "ms", kTime,
                "llf: only while requests wait longer than this to be dispatched, else first come first served; 0: "
                "always")})
      .makes([](const ServiceOptions& o, const Making&) -> Result<std::shared_ptr<Order>> {
        return std::make_shared<Order>(o);
      });
}

}  // namespace

void register_freesh(Registry& to) {
  to.add<SitePlannerOptions>(
        SlotKind::Scaling, "freesh",
        "FREESH: which workers run at which site for which class, every half hour, by integer program",
        site_planner_options())
      .needs({.sites = true})
      .makes(make_site_planner);
  to.add<MiadOptions>(
        SlotKind::Frequency, "miad",
        "FREESH: the clock rises by a factor when requests suffer and falls by a constant when they do not",
        miad_options())
      .reserve("margin")
      .admits([](const MiadOptions& o, const Making& making) { return floor_fits(o.floor, making); })
      .makes([](const MiadOptions& o, const Making&) -> Result<std::shared_ptr<policy::Miad>> {
        return std::make_shared<policy::Miad>(o);
      });
  to.add<PrimalDualOptions>(
        SlotKind::Frequency, "primal-dual",
        "FREESH: the controller that MIAD approximates: each request's log speed against the price of power, by "
        "believed step times and power, and no clock at which a limit of latency is missed",
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
  to.add<R>(
        SlotKind::Routing, kRatedTurns,
        "FREESH: in turn, by fleet.weight, to workers with less in flight than at their rating",
        {option(
             "ratings", &R::ratings,
             "CSV of what workers carry, in the columns of FREESH's release, looked up in WATTLE_DATA: a worker takes "
             "as "
             "many as it has in flight at its rating, rate times latency; types are pools, in the file's order; empty: "
             "no bound but the next"),
         option("partition", &R::partition, "ratings: the rows of this partition"),
         option("max_in_flight_per_gpu", &R::max_in_flight_per_gpu, "requests", {0, 1'000'000},
                "Likewise, of workers that ratings do not name; 0: no bound")})
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
  add_order<policy::ShortestRemainingFirst>(to, "srtf", "The shortest predicted service first");
  add_order<policy::LeastLaxityFirst>(to, "llf", "FREESH: the least time to spare first");
}

}  // namespace wattle::systems
