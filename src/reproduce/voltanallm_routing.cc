// EcoRoute against other ways to choose a decode instance.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reproduce/voltanallm_runs.h"

namespace wattle::reproduce {

namespace {

struct Routing {
  std::string_view name;
  std::vector<std::string> set;
};
constexpr std::string_view kRoundRobin = "round-robin";
constexpr std::string_view kTileAware = "tile-aware";
constexpr std::string_view kTiles = "eco-route/tiles";
constexpr std::string_view kCurrent = "eco-route/lowest-current";
constexpr std::string_view kResulting = "eco-route/lowest-resulting";

std::vector<Routing> routings_compared() {
  const std::string decode = "routing.decode.";
  const std::string clocks = decode + "borders=clocks";
  return {
      {kRoundRobin, {decode + "policy=round-robin"}},
      {"least-loaded", {decode + "policy=least-loaded"}},
      {kTileAware, {decode + "policy=tile-aware"}},
      {kTiles, {decode + "borders=tiles"}},
      {kCurrent, {clocks, decode + "beyond_spread=lowest-current"}},
      {kResulting, {clocks, decode + "beyond_spread=lowest-resulting"}},
      {"eco-route/as-published", {clocks, decode + "spare_overloaded=false"}},
  };
}

constexpr std::int64_t kRates[]{45, 60, 70, 75, 80, 85, 90, 100, 110};
constexpr Span kPeriod = Span::ms(50);
/// Each point is the mean over so many draws of lengths and arrivals, because draws differ much near capacity.
constexpr int kDraws = 3;

/// Energy of the decode instances while requests arrive. Not to the run's end: how long the last answer takes would
/// decide.
Joules decode_energy(const Sampled& run, double seconds) {
  std::map<InstanceId, Picojoules> drawn;  // by each, up to then
  for (const auto& sample : run.samples) {
    const bool decodes = sample.instance.value() >= 2;  // 2P2D
    if (decodes && sample.at.seconds() <= seconds) drawn[sample.instance] = sample.energy;
  }
  Picojoules sum;
  for (const auto& [id, energy] : drawn) sum += energy;
  return sum.joules();
}

/// Of all rates and both data sets: ours against another.
struct Against {
  double worst_energy = -100.0;  ///< %, more than the other
  double sum_energy = 0.0;
  double worst_attainment = -100.0;  ///< points, below the other
  int count = 0;
  void add(double energy, double other_energy, double attained, double other_attained) {
    const double more = -saved_percent(energy, other_energy);
    worst_energy = std::max(worst_energy, more);
    sum_energy += more;
    worst_attainment = std::max(worst_attainment, 100.0 * (other_attained - attained));
    ++count;
  }
};

}  // namespace

Result<Section> routings(const System& system, double seconds) {
  Section made;
  made.source = "Algorithm 2 and its baselines (no published numbers)";
  made.note = fmt::format(
      "Simulated, means of {} draws: arrivals for {:.0f} s, both data sets' lengths; energy of the two decode "
      "instances while requests arrive; EcoFreq chooses the clocks under all. tile-aware is one of the reference "
      "implementation's policies. eco-route/tiles: ours, in the recipes (docs/decisions/0010); overload_margin was "
      "chosen on this grid. Case 2(b) takes the lowest current clock (VoltanaLLM) or the lowest resulting one "
      "(GreenServe); with two levels the allowed spread of 500 MHz exceeds their distance, so it never comes up and "
      "both readings are one. as-published: besides, an instance beyond its objective even at the highest clock still "
      "gets requests (spare_overloaded off).",
      kDraws, seconds);
  const auto compared = routings_compared();
  struct Point {
    Joules energy;
    double attained = 0.0;
  };
  for (const auto& [levels, recipe] : {std::pair("2l", system.recipe), std::pair("5l", system.five_levels)}) {
    Against turns;
    Against tile_aware;
    double readings = 0.0;
    for (const PublishedLengths& lengths : kLengths) {
      PlotMaker energy(fmt::format("decode energy against round-robin, {}, {}", lengths.name, levels), "requests/s",
                       "% saved");
      PlotMaker itl(fmt::format("ITL attainment, {}, {}", lengths.name, levels), "requests/s", "%");
      for (const std::int64_t rate : kRates) {
        std::vector<config::LoadedScenario> draws;
        for (int draw = 1; draw <= kDraws; ++draw) {
          auto scenario =
              published_scenario(kLlama, lengths, rate,
                                 {fmt::format("workload.requests={:.0f}", static_cast<double>(rate) * seconds),
                                  fmt::format("seed={}", draw)});
          if (!scenario) return std::unexpected(scenario.error());
          draws.push_back(std::move(*scenario));
        }
        std::map<std::string_view, Point> points;
        for (const Routing& routing : compared) {
          Point& here = points[routing.name];
          for (const auto& scenario : draws) {
            const auto run = serve_sampled(scenario, {recipe, routing.set}, kPeriod);
            if (!run) return std::unexpected(run.error());
            here.energy += decode_energy(*run, seconds) / kDraws;
            here.attained += run->summary.slo.tbt / kDraws;
          }
          const auto base = fmt::format("routing/{}/{}/rps{}/{}/", lengths.id, levels, rate, routing.name);
          const double saving = saved_percent(here.energy.value(), points.at(kRoundRobin).energy.value());
          add_row(made, base + "decode_energy", "J", here.energy.value());
          add_row(made, base + "itl_attainment", "%", 100.0 * here.attained);
          if (routing.name != kRoundRobin) add_row(made, base + "saving", "%", saving);
          energy.add(routing.name, static_cast<double>(rate), saving);
          itl.add(routing.name, static_cast<double>(rate), 100.0 * here.attained);
        }
        const Point& ours = points.at(kTiles);
        const auto against = [&](Against& to, std::string_view name) {
          const Point& other = points.at(name);
          to.add(ours.energy.value(), other.energy.value(), ours.attained, other.attained);
        };
        against(turns, kRoundRobin);
        against(tile_aware, kTileAware);
        readings = std::max(readings, std::abs(points.at(kCurrent).energy / points.at(kResulting).energy - 1.0));
      }
      made.plots.push_back(energy.take());
      made.plots.push_back(itl.take());
    }
    add_row(made, fmt::format("routing/{}/readings_differ", levels), "%", 100.0 * readings);
    const auto target = [&](const char* name, const char* wanted, double value, double most) {
      made.targets.push_back({fmt::format("{}_{}", name, levels), wanted, value, value <= most});
    };
    target("eco_route_costs", "<= 0.5 % more decode energy than round-robin, every rate", turns.worst_energy, 0.5);
    target("eco_route_loses", "<= 1 point of ITL attainment to round-robin, every rate", turns.worst_attainment, 1.0);
    target("eco_route_against_tile_aware", "<= 0.5 % more decode energy, mean of all rates",
           tile_aware.sum_energy / tile_aware.count, 0.5);
    target("eco_route_against_tile_aware_worst", "<= 0.5 % more decode energy, every rate", tile_aware.worst_energy,
           0.5);
    target("eco_route_loses_to_tile_aware", "<= 1 point of ITL attainment, every rate", tile_aware.worst_attainment,
           1.0);
  }
  return made;
}

}  // namespace wattle::reproduce
