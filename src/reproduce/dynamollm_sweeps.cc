// Figures 10 to 14: the hour over time, and sweeps of accuracy, load and pools.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "reproduce/dynamollm.h"

namespace wattle::reproduce::dynamollm {

Result<Section> timeline() {
  const auto made = run({"dynamollm"});
  if (!made) return std::unexpected(made.error());
  Section section{"Figures 10 and 11", "Recipe dynamollm on scenario dynamollm-hour, minute by minute.", {}, {}, {}};
  constexpr std::size_t kSm = 1, kLl = 8;
  Plot clocks{"Mean clock of instances", "min", "MHz", {{"total", {}}, {"SM", {}}, {"LL", {}}}};
  Plot gpus{"GPUs by TP degree", "min", "GPUs", {{"TP2", {}}, {"TP4", {}}, {"TP8", {}}}};
  double highest = 0.0, changes = 0.0;
  std::map<int, double> last, mean;
  for (std::size_t i = 0; i < made->minutes.size(); ++i) {
    const Occupied& minute = made->minutes[i];
    const auto x = static_cast<double>(i);
    highest = std::max(highest, minute.clock_mhz);
    clocks.lines[0].points.emplace_back(x, minute.clock_mhz);
    for (const auto& [line, pool] : {std::pair(1, kSm), std::pair(2, kLl)}) {
      if (pool >= made->pool_minutes.size() || i >= made->pool_minutes[pool].size()) continue;
      clocks.lines[static_cast<std::size_t>(line)].points.emplace_back(x, made->pool_minutes[pool][i].clock_mhz);
    }
    for (std::size_t t = 0; t < 3; ++t) {
      const int tp = 2 << t;
      const auto found = minute.gpus.find(tp);
      const double count = found == minute.gpus.end() ? 0.0 : found->second;
      gpus.lines[t].points.emplace_back(x, count);
      changes += i > 0 && std::abs(count - last[tp]) >= 1.0 ? 1.0 : 0.0;
      last[tp] = count;
      mean[tp] += count / static_cast<double>(made->minutes.size());
    }
    if (i % 5 != 0) continue;
    section.rows.push_back({fmt::format("minute{:02}/clock", i), "MHz", {}, minute.clock_mhz});
    for (const auto& [tp, count] : minute.gpus) {
      section.rows.push_back({fmt::format("minute{:02}/tp{}", i, tp), "GPUs", {}, count});
    }
  }
  for (const auto& [tp, count] : mean) section.rows.push_back({fmt::format("mean/tp{}", tp), "GPUs", {}, count});
  section.targets.push_back({"mean_clock_always_below_the_highest", "below 1980 MHz", highest, highest < 1980.0});
  section.targets.push_back({"tp_degrees_change", "some minutes", changes, changes > 0.0});
  section.targets.push_back({"every_tp_degree_is_used", "3 of them", static_cast<double>(mean.size()),
                             std::ranges::count_if(mean, [](const auto& m) { return m.second > 0.5; }) == 3});
  section.plots = {std::move(clocks), std::move(gpus)};
  return section;
}

Result<Section> accuracy() {
  Section section{"Figure 12",
                  "Recipe dynamollm at the medium load of section load, its output classes predicted with another "
                  "accuracy; a wrong class is a neighbour of the right one. Pools are profiled with requests of their "
                  "class; managers learn what those that come turn out to be.",
                  {},
                  {},
                  {}};
  const auto scenario = hour_scenario();
  if (!scenario) return std::unexpected(scenario.error());
  const auto load = load_of(*scenario);
  if (!load) return std::unexpected(load.error());
  std::optional<FleetRun> right;
  double energy = 0.0, ttft = 0.0;
  for (const double share : {1.0, 0.81, 0.6}) {
    auto made = run(
        {"dynamollm", {fmt::format("length.accuracy={}", share)}, "dynamollm-hour", poisson_of(*load, kMediumLoad)});
    if (!made) return std::unexpected(made.error());
    if (!right) right = *made;
    energy = percent(made->kwh(), right->kwh());
    ttft = percent(made->summary.ttft.p99_ms, right->summary.ttft.p99_ms);
    const auto base = fmt::format("fig12/accuracy{:g}/", 100 * share);
    const bool published = share == 0.6;
    section.rows.push_back({base + "energy", "% more", published ? std::optional(25.0) : std::nullopt, energy});
    section.rows.push_back(
        {base + "ttft_p50", "% more", {}, percent(made->summary.ttft.p50_ms, right->summary.ttft.p50_ms)});
    section.rows.push_back({base + "gpus_with_instance", "GPUs", {}, made->mean_gpus()});
    section.rows.push_back({base + "ttft_p99", "% more", published ? std::optional(12.3) : std::nullopt, ttft});
    section.rows.push_back({base + "objectives_met", "%", {}, 100.0 * made->summary.slo.all});
  }
  section.targets.push_back({"less_accuracy_more_energy", "above 0 %", energy, energy > 0.0});
  section.targets.push_back({"less_accuracy_more_ttft", "above 0 %", ttft, ttft > 0.0});
  return section;
}

Result<Section> load_levels() {
  const auto scenario = hour_scenario();
  if (!scenario) return std::unexpected(scenario.error());
  const auto load = load_of(*scenario);
  if (!load) return std::unexpected(load.error());
  Section section{"Figure 13",
                  "The recipes on scenario dynamollm-hour with Poisson arrivals for twenty minutes and the trace's "
                  "lengths; low, medium and high are 650, 2,000 and 4,000 of the 4,000 tokens/s that Table II calls "
                  "high, as shares of what twelve servers carry. SinglePool has twelve at every level.",
                  {},
                  {},
                  {}};
  struct Level {
    const char* name;
    double share, published;
  };
  double before = 1e9;
  bool falls = true;
  for (const Level& level :
       {Level{"low", kLowLoad, 57.0}, Level{"medium", kMediumLoad, 42.0}, Level{"high", kHighLoad, 15.0}}) {
    const auto poisson = poisson_of(*load, level.share);
    std::optional<FleetRun> base;
    const auto row = [&](const std::string& name, const FleetRun& made, std::optional<double> published) {
      section.rows.push_back(
          {fmt::format("fig13/{}/{}/saving", level.name, name), "%", published, -percent(made.kwh(), base->kwh())});
      section.rows.push_back(
          {fmt::format("fig13/{}/{}/objectives_met", level.name, name), "%", {}, 100.0 * made.summary.slo.all});
    };
    for (const char* recipe :
         {"single-pool", "multi-pool", "scale-inst", "scale-shard", "scale-freq", "dynamollm", "dynamollm-ours"}) {
      auto made = run({recipe, {}, "dynamollm-hour", poisson});
      if (!made) return std::unexpected(made.error());
      if (!base) base = *made;
      const double saving = -percent(made->kwh(), base->kwh());
      const bool published = std::string_view(recipe) == "dynamollm";
      row(recipe, *made, published ? std::optional(level.published) : std::nullopt);
      if (!published) continue;
      section.targets.push_back({fmt::format("saving_at_{}_load", level.name), fmt::format("{:g}±6 %", level.published),
                                 saving, std::abs(saving - level.published) <= 6.0});
      falls = falls && saving < before;
      before = saving;
    }
    const auto fixed = fixed_clocks({"", {}, "dynamollm-hour", poisson}, {8, 4}, 96);
    if (!fixed) return std::unexpected(fixed.error());
    if (const Fixed* best = best_of(*fixed, *base)) {
      row(fmt::format("best_fixed_tp{}_{}mhz", best->tp, best->mhz), best->run, {});
    }
  }
  section.targets.push_back({"higher_load_smaller_saving", "as published", falls ? 1.0 : 0.0, falls});
  return section;
}

Result<Section> pool_counts() {
  Section section{"Figure 14",
                  "Recipes dynamollm-2pools to -16pools on scenario dynamollm-hour. GPUs with an instance, mean over "
                  "the hour. 2, 4, 6: neighbouring ones of the nine classes share a pool; 12 and 16: prompts, and "
                  "answers, in four sizes.",
                  {},
                  {},
                  {}};
  struct Count {
    const char* recipe;
    double gpus;
  };
  std::vector<double> gpus, ttft, tail;
  for (const Count& count :
       {Count{"dynamollm-2pools", 75.1}, Count{"dynamollm-4pools", 79.6}, Count{"dynamollm-6pools", 81.3},
        Count{"dynamollm", 85.7}, Count{"dynamollm-12pools", 87.1}, Count{"dynamollm-16pools", 91.2}}) {
    const auto made = run({count.recipe});
    if (!made) return std::unexpected(made.error());
    const auto base = fmt::format("fig14/{}/", count.recipe);
    gpus.push_back(made->mean_gpus());
    ttft.push_back(made->summary.ttft.p50_ms);
    tail.push_back(made->summary.ttft.p99_ms);
    section.rows.push_back({base + "gpus", "GPUs", count.gpus, gpus.back()});
    section.rows.push_back({base + "energy", "kWh", {}, made->kwh()});
    section.rows.push_back({base + "ttft_p50", "ms", {}, ttft.back()});
    section.rows.push_back({base + "ttft_p99", "ms", {}, made->summary.ttft.p99_ms});
    section.rows.push_back({base + "objectives_met", "%", {}, 100.0 * made->summary.slo.all});
  }
  section.targets.push_back(
      {"more_pools_more_gpus", "each above the one before", gpus.back() - gpus.front(), std::ranges::is_sorted(gpus)});
  section.targets.push_back(
      {"more_pools_less_ttft_p50", "16 below 2", ttft.back() - ttft.front(), ttft.back() < ttft.front()});
  section.targets.push_back(
      {"more_pools_less_ttft_p99", "16 below 2", tail.back() - tail.front(), tail.back() < tail.front()});
  return section;
}

}  // namespace wattle::reproduce::dynamollm
