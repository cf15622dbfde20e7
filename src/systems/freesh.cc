// FREESH: pools across sites every half hour, MIAD on each node, and orders of held requests that know how long service
// takes.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/csv.h"
#include "base/file.h"
#include "config/locate.h"
#include "managers/site_pools.h"
#include "policy/frequency/miad.h"
#include "policy/queueing/laxity.h"
#include "policy/routing/weighted_round_robin.h"
#include "systems/registry.h"
#include "workload/source.h"

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
using policy::ServiceOptions;

constexpr config::Bounds kTime{0, 3'600'000};
constexpr double kKwhPerMwh = 1000.0;

std::vector<config::Option<MiadOptions>> miad_options() {
  using M = MiadOptions;
  return {
      option("factor", &M::factor, "", {1.01, 100}, "M: congested, the clock rises by this factor"),
      option("decrease_mhz", &M::decrease, "MHz", {1, 10'000}, "delta: otherwise it falls by this"),
      option("floor_mhz", &M::floor, "MHz", {0, 10'000}, "And no further than this"),
      option("period_ms", &M::period, "ms", {1, 3'600'000}, "Between two decisions"),
      option("tbt_ms", &M::tbt, "ms", kTime, "A longer gap between tokens is congestion"),
      option("ttft_short_ms", &M::ttft_short, "ms", kTime, "Likewise to the first token of a short prompt"),
      option("ttft_long_ms", &M::ttft_long, "ms", kTime, "And of a longer one"),
      option("short_prompt", &M::short_prompt, "tokens", {0, 10'000'000}, "The longest short prompt"),
      option(
          "quantile", &M::quantile, "", {0, 1},
          "Share of a period's latencies that has to be within; 1: a single one beyond is congestion, as in the paper"),
      option("mean_gap_ms", &M::mean_gap_ms, "ms", {1, 3'600'000},
             "By pool (of a planner of pools: the class): a longer gap between tokens in the mean of a period is "
             "congestion; a limit on whole requests over the mean answer"),
  };
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
  bool cleanest = false;
  bool pooled = false;
  bool sweet = false;
  std::int32_t tensor_parallel = 0;
  std::string ratings;
  std::string partition = "2";
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
             "load, idling earns nothing, starts cost, what cannot be carried is relaxed and then shed by name"),
      option("alpha", &P::alpha, "", {1, 100}, "Capacity kept, as a multiple of the demand expected (paper: 1.1)"),
      option("beta", &P::beta, "", {0.01, 100}, "Peaks are divided by this before they are planned for"),
      option("replans", &P::replans, "off: the first plan stays"),
      option(
          "cleanest", &P::cleanest,
          "Workers stand at the cleanest sites that can carry the demand, as few sites as do; off: where it is best"),
      option(
          "pooled", &P::pooled,
          "Any request goes to any worker, and so many are planned as the mix of classes takes; off: a class has its "
          "own"),
      option("tensor_parallel", &P::tensor_parallel, "GPUs", {0, 1024}, "Workers of this TP degree alone; 0: any"),
      option("ratings", &P::ratings,
             "CSV of what workers carry and draw, in the columns of FREESH's release, looked up in WATTLE_DATA; empty: "
             "measured on the simulated engines"),
      option("partition", &P::partition, "ratings: the rows of this partition"),
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

/// What one worker carries and draws at this clock; none: nothing was measured.
std::optional<plan::WorkerRating> rating_of(const plan::ProfiledClass& of, int tp, MegaHertz clock) {
  const auto found = std::ranges::find_if(of.profiles, [&](const auto& p) { return p.tp == tp && p.clock == clock; });
  if (found == of.profiles.end()) return std::nullopt;
  plan::WorkerRating rating;
  rating.max_per_s = plan::most_load(of, tp, clock);
  const auto idle = plan::at_load(*found, 0.0);
  const auto full = plan::at_load(*found, rating.max_per_s);
  if (!idle || !full) return std::nullopt;
  rating.idle = idle->power;
  rating.peak = full->power;
  rating.ttft = full->ttft;
  rating.tbt = full->tbt;
  return rating;
}

/// A row of the release's file of what workers carry and draw.
struct ReleasedWorker {
  std::string type, gpu;
  int tensor_parallel = 1;
  double max_per_s = 0.0;  ///< 0: it cannot serve that type
  double power_w = 0.0, e2e_s = 0.0, ttft_ms = 0.0, tbt_ms = 0.0;
};

/// Those of one partition, in the file's order.
Result<std::vector<ReleasedWorker>> read_released(const std::string& name, const std::string& partition) {
  const auto path = workload::find_file(name, config::data_dir(), ".");
  if (!path) return std::unexpected(path.error());
  const auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  constexpr std::array<std::string_view, 9> kColumns{
      "partition",      "request_type",       "tp",           "gpu",        "max_qps",
      "worker_power_w", "mean_e2e_latency_s", "mean_ttft_ms", "mean_tbt_ms"};
  auto csv = CsvReader::open(*text, *path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  std::vector<ReleasedWorker> all;
  for (;;) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) return all;
    if (csv->field(0) != partition) continue;
    ReleasedWorker worker;
    worker.type = csv->field(1);
    worker.gpu = csv->field(3);
    const std::string_view tp = csv->field(2);
    const char* const end = tp.data() + tp.size();
    if (!tp.starts_with("TP") || std::from_chars(tp.data() + 2, end, worker.tensor_parallel).ptr != end) {
      return bad_input(*path, fmt::format("tp: \"{}\" is no TP degree, such as TP2", tp));
    }
    double* const values[] = {&worker.max_per_s, &worker.power_w, &worker.e2e_s, &worker.ttft_ms, &worker.tbt_ms};
    for (std::size_t i = 0; i < std::size(values); ++i) {
      const auto value = csv->number(i + 4, 0.0, 1e9);
      if (!value) return std::unexpected(value.error());
      *values[i] = *value;
    }
    all.push_back(std::move(worker));
  }
}

/// By "SS A100 TP2". Idle power is not in there.
Result<std::map<std::string, plan::WorkerRating>> read_ratings(const SitePlannerOptions& o) {
  constexpr double kIdleShare = 0.3;  // of the peak: about 200 W of 650 to 700 W (Figure 15)
  const auto released = read_released(o.ratings, o.partition);
  if (!released) return std::unexpected(released.error());
  std::map<std::string, plan::WorkerRating> all;
  for (const ReleasedWorker& worker : *released) {
    plan::WorkerRating rating;
    rating.max_per_s = worker.max_per_s;
    rating.peak = Watts(worker.power_w);
    rating.idle = Watts(worker.power_w * kIdleShare);
    rating.ttft = Span::from_seconds(worker.ttft_ms * 1e-3);
    rating.tbt = Span::from_seconds(worker.tbt_ms * 1e-3);
    all[fmt::format("{} {} TP{}", worker.type, worker.gpu, worker.tensor_parallel)] = rating;
  }
  return all;
}

struct RatedTurnsOptions {
  std::string ratings;
  std::string partition = "2";
  std::int32_t max_in_flight_per_gpu = 0;
};

/// What a worker has in flight at its rating: rate times latency (Little). Pools are numbered as types come in the
/// file.
Result<std::vector<policy::InFlightBound>> read_bounds(const RatedTurnsOptions& o) {
  const auto released = read_released(o.ratings, o.partition);
  if (!released) return std::unexpected(released.error());
  std::vector<std::string> types;
  std::vector<policy::InFlightBound> bounds;
  for (const ReleasedWorker& worker : *released) {
    auto type = std::ranges::find(types, worker.type);
    if (type == types.end()) type = types.insert(types.end(), worker.type);
    std::string gpu = worker.gpu;
    std::ranges::transform(gpu, gpu.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto requests = static_cast<std::int32_t>(std::lround(worker.max_per_s * worker.e2e_s));
    if (requests == 0) continue;
    bounds.push_back({PoolId(static_cast<std::int32_t>(type - types.begin())), worker.tensor_parallel, gpu, requests});
  }
  return bounds;
}

/// By class: one column each, or all columns together where requests are of one class.
Result<std::vector<std::vector<double>>> read_demand(const SitePlannerOptions& o,
                                                     const std::vector<plan::PoolType>& types) {
  const auto path = workload::find_file(o.demand, config::data_dir(), ".");
  if (!path) return std::unexpected(path.error());
  const auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  constexpr std::array<std::string_view, 4> kColumns{"ss_qps", "sl_qps", "ls_qps", "ll_qps"};
  auto csv = CsvReader::open(*text, *path, kColumns);
  if (!csv) return std::unexpected(csv.error());
  if (types.size() != 1 && types.size() != kColumns.size()) {
    return bad_input(
        *path, fmt::format("has {} types of requests; the recipe sorts them into {}", kColumns.size(), types.size()));
  }
  std::vector<std::vector<double>> expected(types.size());
  for (std::int32_t row = 0;; ++row) {
    const auto more = csv->next();
    if (!more) return std::unexpected(more.error());
    if (!*more) break;
    if (row < o.demand_from) continue;
    for (auto& series : expected) series.push_back(0.0);
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const auto value = csv->number(i, 0.0, 1e9);
      if (!value) return std::unexpected(value.error());
      expected[types.size() == 1 ? 0 : i].back() += *value;
    }
  }
  if (expected.front().empty()) return bad_input(*path, fmt::format("has no row {}", o.demand_from));
  return expected;
}

/// As the release calls it: "a100-80g" is A100.
std::string released_kind(const std::string& gpu) {
  std::string kind = gpu.substr(0, gpu.find('-'));
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return kind;
}

managers::SitePoolsOptions site_pools_options(const SitePlannerOptions& o) {
  managers::SitePoolsOptions options;
  options.planning.formulation = o.formulation;
  options.planning.objective = o.objective;
  options.planning.alpha = o.alpha;
  options.epoch = o.epoch;
  options.slot = o.slot;
  options.beta = o.beta;
  options.replans = o.replans;
  options.cleanest = o.cleanest;
  options.pooled = o.pooled;
  return options;
}

Result<std::shared_ptr<managers::SitePools>> make_site_planner(const SitePlannerOptions& o, const Making& making) {
  if (making.scaling.sites == nullptr)
    return making.refuse("policy", "freesh plans over a scenario's sites; none are given");
  if (o.epoch < o.slot) return making.refuse("epoch_s", "is shorter than slot_s");
  if (making.scaling.sites->kept.size() > plan::PoolType::kMostKept) {
    return making.refuse("policy", fmt::format("freesh plans for at most {} different residencies of tenants",
                                               plan::PoolType::kMostKept));
  }
  const SiteFleet& fleet = *making.scaling.sites;
  std::map<std::string, plan::WorkerRating> released;
  if (!o.ratings.empty()) {
    auto read = read_ratings(o);
    if (!read) return std::unexpected(read.error());
    released = std::move(*read);
  }
  managers::SitePoolsSetup setup;
  auto& problem = setup.problem;
  for (const auto& kind : fleet.kinds) problem.kinds.push_back(kind.gpu);
  for (const auto& name : fleet.sites)
    problem.sites.push_back({.name = name, .gpus = {}, .intensity = {}, .price_usd_per_kwh = {}});
  std::vector<SiteFleet::Shape> modes;
  setup.shapes.resize(fleet.sites.size());
  for (std::size_t s = 0; s < fleet.shapes.size(); ++s) {
    const auto& shape = fleet.shapes[s];
    if (o.tensor_parallel != 0 && shape.tensor_parallel != o.tensor_parallel) continue;
    auto mode = std::ranges::find_if(
        modes, [&](const auto& m) { return m.kind == shape.kind && m.tensor_parallel == shape.tensor_parallel; });
    if (mode == modes.end()) {
      mode = modes.insert(mode, shape);
      std::vector<int> gpus(fleet.kinds.size(), 0);
      gpus[shape.kind] = shape.tensor_parallel;
      problem.modes.push_back({fmt::format("TP{} {}", shape.tensor_parallel, fleet.kinds[shape.kind].gpu), gpus});
    }
    const auto m = static_cast<std::size_t>(mode - modes.begin());
    for (auto& at : setup.shapes) at.resize(modes.size());
    setup.shapes[shape.site][m] = s;
  }
  for (const auto& machine : fleet.nodes) setup.nodes.push_back({machine.site, machine.kind, machine.gpus});
  if (modes.empty()) return making.refuse("tensor_parallel", "no [[fleet]] is of this degree");
  problem.partitions.push_back({making.recipe.name, {}});
  for (std::size_t c = 0; c < fleet.kinds.front().loads->classes.size(); ++c) {
    plan::PoolType type;
    const plan::ProfiledClass& profiled = fleet.kinds.front().loads->classes[c];
    type.name = profiled.name;
    if (!o.ratings.empty()) {  // measured ones are of loads within the limits
      type.ttft_limit = profiled.limits.ttft;
      type.tbt_limit = profiled.limits.tbt;
    }
    for (const auto& mode : modes) {
      if (!o.ratings.empty()) {
        const auto found = released.find(
            fmt::format("{} {} TP{}", type.name, released_kind(fleet.kinds[mode.kind].gpu), mode.tensor_parallel));
        type.ratings.push_back(found == released.end() ? std::nullopt : std::optional(found->second));
        continue;
      }
      type.ratings.push_back(
          rating_of(fleet.kinds[mode.kind].loads->classes[c], mode.tensor_parallel, o.sweet ? mode.sweet : mode.top));
    }
    for (const auto& kept : fleet.kept) {
      auto& at = type.kept.emplace_back();
      at.share = kept.share;
      for (std::size_t n = 0; n < fleet.sites.size(); ++n) {
        at.sites.push_back(kept.sites.allows(SiteId(static_cast<std::int32_t>(n))));
      }
    }
    problem.partitions.back().types.push_back(std::move(type));
  }
  if (!o.demand.empty()) {
    auto expected = read_demand(o, problem.partitions.back().types);
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
  if (o.season < o.slot) return making.refuse("season_s", "is shorter than slot_s");
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
      .admits([](const MiadOptions& o, const Making& making) -> Result<void> {
        const GpuSpec& gpu = making.spec->gpu;
        if (o.floor <= gpu.clock_max) return {};
        return making.refuse("floor_mhz", fmt::format("{} MHz is above the highest clock of {}, {} MHz",
                                                      o.floor.value(), gpu.name, gpu.clock_max.value()));
      })
      .makes([](const MiadOptions& o, const Making&) -> Result<std::shared_ptr<policy::Miad>> {
        return std::make_shared<policy::Miad>(o);
      });
  using R = RatedTurnsOptions;
  to.add<R>(
        SlotKind::Routing, "freesh",
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
          auto bounds = read_bounds(o);
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
