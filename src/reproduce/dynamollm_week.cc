// Figures 15 and 17 and section V-F: a week of both services, with servers,
// cost and carbon.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <future>
#include <span>

#include "base/side_by_side.h"
#include "config/locate.h"
#include "reproduce/dynamollm.h"

namespace wattle::reproduce::dynamollm {

namespace {

/// Published long-term results of a service; they become targets.
struct Published {
  const char* service;
  std::optional<double> saving, carbon_saving;  ///< %
  std::optional<double> servers, share_of_servers;
};

/// A service, and its fleets' runs. SinglePool and its kin have `servers` as long as they last.
struct LongRuns {
  Published published;
  std::string name;                ///< of the scenario
  std::vector<std::string> slice;  ///< overrides of it
  HourLoad load;
  int servers = 0;
  FleetRun single = {};
  std::optional<Fixed> best = {};  ///< at TP8
  FleetRun dynamollm = {}, ours = {};
};

/// SinglePool, and it at fixed clocks.
Result<void> run_fixed(LongRuns& to) {
  auto set = to.slice;
  set.push_back(fmt::format("fleet.0.count={}", to.servers));
  auto single = run({"single-pool", {}, to.name, set});
  if (!single) return std::unexpected(single.error());
  to.single = std::move(*single);
  // Upwards: once a clock that keeps the objectives costs more than one below it did, so does every higher one.
  for (const int mhz : {810, 1005, 1200, 1395, 1605}) {
    Run what = fixed_fleet(8, mhz, to.servers * 8);
    what.scenario = to.name;
    what.scenario_set.insert(what.scenario_set.end(), to.slice.begin(), to.slice.end());
    auto made = run(what);
    if (!made) return std::unexpected(made.error());
    if (made->summary.slo.all < to.single.summary.slo.all - kAllowedMiss) continue;
    if (to.best && made->kwh() >= to.best->run.kwh()) break;
    to.best = Fixed{8, mhz, std::move(*made)};
  }
  return {};
}

/// Servers at TP8 and the highest clock that handle the peak.
Result<int> servers_for(const std::string& name, const HourLoad& load) {
  int servers = std::max(1, static_cast<int>(std::ceil(load.busiest_servers)));
  for (const int most = 4 * servers; servers < most; ++servers) {
    const auto kept = kept_at_the_peak(name, load, servers);
    if (!kept) return std::unexpected(kept.error());
    if (*kept >= kHandled) break;
  }
  return servers;
}

/// What SinglePool needs, before anything runs.
Result<LongRuns> prepared(const Published& published, const std::vector<std::string>& slice) {
  const std::string name = fmt::format("dynamollm-week-{}", published.service);
  const auto overrides = config::parse_overrides(slice);
  if (!overrides) return std::unexpected(overrides.error());
  const auto scenario = config::load_scenario(name, *overrides, config::project());
  if (!scenario) return std::unexpected(scenario.error());
  const auto load = load_of(*scenario);
  if (!load) return std::unexpected(load.error());
  const auto servers = servers_for(name, *load);
  if (!servers) return std::unexpected(servers.error());
  return LongRuns{published, name, slice, *load, *servers};
}

/// All runs of all services on two threads, each of which takes the next of one list.
Result<void> run_all(std::span<LongRuns> services) {
  using Task = std::function<Result<void>()>;
  const auto managed = [](LongRuns& of, const char* recipe, FleetRun& to) -> Task {
    return [&of, recipe, &to]() -> Result<void> {
      auto made = run({recipe, {}, of.name, of.slice});
      if (!made) return std::unexpected(made.error());
      to = std::move(*made);
      return {};
    };
  };
  std::vector<Task> tasks;
  for (LongRuns& of : services) {
    tasks.push_back(managed(of, "dynamollm-ours", of.ours));
    tasks.emplace_back([&of] { return run_fixed(of); });
  }
  for (LongRuns& of : services) tasks.push_back(managed(of, "dynamollm", of.dynamollm));
  std::vector<Result<void>> done(tasks.size());
  side_by_side(2, tasks.size(), [&](std::size_t i) { done[i] = tasks[i](); });
  const auto failed = std::ranges::find_if(done, [](const Result<void>& one) { return !one; });
  return failed == done.end() ? Result<void>() : *failed;
}

void add_targets(Section& section, const LongRuns& runs) {
  const Published& published = runs.published;
  const FleetRun& dynamo = runs.dynamollm;
  const auto target = [&](const char* what, const std::string& wanted, double value, bool met) {
    section.targets.push_back({fmt::format("{}_{}", published.service, what), wanted, value, met});
  };
  if (published.saving) {
    const double saving = -percent(dynamo.kwh(), runs.single.kwh());
    target("energy_saved", fmt::format("{:g}±6 %", *published.saving), saving,
           std::abs(saving - *published.saving) <= 6.0);
  }
  if (published.share_of_servers) {
    const double share = dynamo.mean_servers() / runs.single.mean_servers();
    target("share_of_servers", fmt::format("{:.3f}±10 %", *published.share_of_servers), share,
           std::abs(share / *published.share_of_servers - 1.0) <= 0.1);
  }
  if (published.carbon_saving) {
    const double carbon = -percent(dynamo.summary.carbon.value(), runs.single.summary.carbon.value());
    target("carbon_saved", fmt::format("{:g} % ±10 %", *published.carbon_saving), carbon,
           std::abs(carbon / *published.carbon_saving - 1.0) <= 0.1);
  }
}

/// Rows of a service's runs; with targets if `whole`.
void add_rows(Section& section, const LongRuns& runs, bool whole) {
  const Published& published = runs.published;
  const auto row = [&](const std::string& what, const char* unit, double ours, std::optional<double> paper = {}) {
    section.rows.push_back({fmt::format("{}/{}", published.service, what), unit, paper, ours});
  };
  row("load/servers_in_the_busiest_minute", "servers", runs.load.busiest_servers);
  row("load/servers_mean", "servers", runs.load.mean_servers);
  row("single-pool/servers_for_the_peak", "servers", runs.servers, published.servers);
  const auto report = [&](const std::string& what, const FleetRun& made) {
    const auto& s = made.summary;
    row(what + "/energy", "kWh", made.kwh());
    row(what + "/servers", "servers", made.mean_servers());
    row(what + "/objectives_met", "%", 100.0 * s.slo.all);
    row(what + "/carbon", "kg", s.carbon.value() / 1e3);
    row(what + "/cost_of_gpus", "USD/h", s.cost_split.gpus.value() / (s.sim.virtual_s / 3600.0));
    row(what + "/cost_of_electricity", "USD/h", s.cost_split.electricity.value() / (s.sim.virtual_s / 3600.0));
    row(what + "/requests", "requests", static_cast<double>(s.requests.arrived));
    if (&made == &runs.single) return;
    row(what + "/energy_saved", "%", -percent(made.kwh(), runs.single.kwh()));
    row(what + "/servers_saved", "%", -percent(made.mean_servers(), runs.single.mean_servers()));
    row(what + "/carbon_saved", "%", -percent(s.carbon.value(), runs.single.summary.carbon.value()));
    if (runs.best && &made != &runs.best->run) {
      row(what + "/saves_over_best_fixed", "%", -percent(made.kwh(), runs.best->run.kwh()));
    }
  };
  report("single-pool", runs.single);
  if (runs.best) report(fmt::format("best_fixed_tp8_{}mhz", runs.best->mhz), runs.best->run);
  report("dynamollm", runs.dynamollm);
  report("dynamollm-ours", runs.ours);
  if (whole) add_targets(section, runs);
}

}  // namespace

Result<Section> day() {
  const Published published{"conversation", 42.0, {}, 11.0, {}};
  auto runs = prepared(published, {"workload.start_s=172800", "workload.duration_s=86400"});
  if (!runs) return std::unexpected(runs.error());
  if (const auto ok = run_all(std::span(&*runs, 1)); !ok) return std::unexpected(ok.error());
  Section made;
  add_rows(made, *runs, true);
  made.source = "Figure 16";
  made.note =
      "Scenario dynamollm-week-conversation, its third day (a Tuesday) at its own rate, iteration by iteration; else "
      "as section week.";
  return made;
}

Result<Section> week(double seconds) {
  constexpr double kWeekSeconds = 604'800.0;
  const bool whole = seconds == kRunSeconds;
  std::vector<std::string> slice;
  if (!whole) slice.push_back(fmt::format("workload.duration_s={}", std::min(seconds, kWeekSeconds)));
  Section section{
      "Figures 15 and 17, section V-F",
      fmt::format("Scenarios dynamollm-week-conversation and -coding, iteration by iteration: all requests of the "
                  "Azure 2024 week (ten-second counts, lengths by histogram), at their own rate{}. SinglePool has as "
                  "many servers as keep 99 % of each class's objectives in the busiest ten minutes (the paper: 40; its "
                  "engine carries less). Carbon and electricity of California in that week, GPUs at 11.06 USD/h (the "
                  "paper's 1362.7 USD/h for 15.4 servers). Published values are the paper's.",
                  whole ? "" : "; here only their beginning (--seconds)"),
      {},
      {},
      {}};
  // 24.6 of 40 servers is of both.
  const std::array<Published, 2> kServices = {
      {{"conversation", 47.0, 38.0, 40.0, 24.6 / 40.0}, {"coding", 56.0, {}, 40.0, 24.6 / 40.0}}};
  auto beside = std::async(std::launch::async, [&] { return prepared(kServices[1], slice); });
  auto conversation = prepared(kServices[0], slice);
  auto coding = beside.get();
  if (!conversation) return std::unexpected(conversation.error());
  if (!coding) return std::unexpected(coding.error());
  std::vector<LongRuns> services{std::move(*conversation), std::move(*coding)};
  if (const auto ok = run_all(services); !ok) return std::unexpected(ok.error());
  for (const LongRuns& one : services) add_rows(section, one, whole);
  return section;
}

}  // namespace wattle::reproduce::dynamollm
