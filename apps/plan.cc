// `wattle plan`: the slow optimisers by hand.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "config/locate.h"
#include "plan/pools.h"
#include "plan/pools_check.h"
#include "plan/pools_csv.h"
#include "workload/source.h"

namespace wattle::apps {
namespace {

/// A file: path and content.
struct Text {
  std::string path, text;
};

Result<Text> load(const std::string& file) {
  const auto path = workload::find_file(file, config::data_dir(), ".");
  if (!path) return std::unexpected(path.error());
  auto text = read_file(*path);
  if (!text) return std::unexpected(text.error());
  return Text{*path, std::move(*text)};
}

struct PoolsFlags {
  std::string profile, capacity, emissions, slo, prices;
  std::vector<std::string> demand;
  std::string formulation = "wattle", objective = "carbon", solver = "cbc";
  double alpha = 1.1, beta = 1.0;
  double idle_share = 0.3;
  double start_s = 60.0;
  double gap = 1e-6;
  std::size_t slots_per_window = 6;
  std::vector<std::size_t> windows;
  std::vector<std::size_t> partitions;
  bool json = false;
};

Result<plan::PoolsData> read_data(const PoolsFlags& flags) {
  std::vector<std::string> files = {flags.profile, flags.capacity, flags.slo, flags.emissions};
  files.insert(files.end(), flags.demand.begin(), flags.demand.end());
  if (!flags.prices.empty()) files.push_back(flags.prices);
  std::vector<Text> texts;
  for (const std::string& file : files) {
    auto text = load(file);
    if (!text) return std::unexpected(text.error());
    texts.push_back(std::move(*text));
  }
  const auto named = [&](std::size_t i) { return plan::NamedText{texts[i].path, texts[i].text}; };
  plan::PoolsTexts all{named(0), named(1), named(2), named(3), {}, {}};
  for (std::size_t i = 0; i < flags.demand.size(); ++i) all.demand.push_back(named(4 + i));
  if (!flags.prices.empty()) all.prices = named(texts.size() - 1);
  return plan::PoolsData::parse(all, flags.idle_share);
}

/// "carbon", "energy", "cost", or shares as in "carbon:0.7,cost:0.3".
Result<plan::PoolsObjective> objective_from(const std::string& text) {
  plan::PoolsObjective objective{.carbon = 0.0, .energy = 0.0, .cost = 0.0};
  const auto wrong = [&] {
    return bad_input("--objective", fmt::format("is '{}'; it must be carbon, energy, cost, or shares of them as in "
                                                "carbon:0.7,cost:0.3",
                                                text));
  };
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto colon = part.find(':');
    const std::string_view name = part.substr(0, colon);
    double share = 1.0;
    if (colon != std::string_view::npos) {
      const std::string number(part.substr(colon + 1));
      char* end = nullptr;
      share = std::strtod(number.c_str(), &end);
      if (number.empty() || *end != '\0' || !(share > 0.0) || !(share < 1e6)) return wrong();
    }
    double& weight = name == "carbon" ? objective.carbon : name == "energy" ? objective.energy : objective.cost;
    if ((name != "carbon" && name != "energy" && name != "cost") || weight > 0.0) return wrong();
    weight = share;
    if (comma == std::string_view::npos) return objective;
    rest.remove_prefix(comma + 1);
  }
}

Result<plan::PoolsOptions> options_from(const PoolsFlags& flags) {
  plan::PoolsOptions options;
  if (flags.formulation == "published") {
    options.formulation = plan::PoolsFormulation::Published;
  } else if (flags.formulation != "wattle") {
    return bad_input("--formulation", fmt::format("is '{}'; it must be wattle or published", flags.formulation));
  }
  if (flags.solver == "highs") {
    options.solver = plan::MilpSolver::Highs;
    if (!plan::has_solver(options.solver)) {
      return bad_input("--solver", "is 'highs', which this build does not contain (tools/highs.sh)");
    }
  } else if (flags.solver != "cbc") {
    return bad_input("--solver", fmt::format("is '{}'; it must be cbc or highs", flags.solver));
  }
  const auto objective = objective_from(flags.objective);
  if (!objective) return std::unexpected(objective.error());
  options.objective = *objective;
  options.alpha = flags.alpha;
  options.start_time = Span::from_seconds(flags.start_s);
  options.relative_gap = flags.gap;
  return options;
}

struct Window {
  std::size_t index = 0;
  plan::PoolsProblem problem;
  plan::PoolsPlan plan;
  double solve_ms = 0.0, solve_cpu_ms = 0.0;
};

constexpr double kLeastShed = 1e-4;  ///< requests per second; smaller values are the solver's rounding

nlohmann::json to_json(const Window& window) {
  const plan::PoolsProblem& problem = window.problem;
  const plan::PoolsPlan& plan = window.plan;
  nlohmann::json object = {{"window", window.index},      {"status", plan::pools_status_name(plan.status)},
                           {"reason", plan.reason},       {"binding", plan.binding},
                           {"solve_ms", window.solve_ms}, {"solve_cpu_ms", window.solve_cpu_ms},
                           {"nodes", plan.nodes}};
  if (!plan.found()) return object;
  const plan::RequestPartition& partition = problem.partitions[plan.partition];
  nlohmann::json pools = nlohmann::json::array(), shed = nlohmann::json::object();
  for (const plan::WorkerPool& pool : plan.pools) {
    pools.push_back({{"site", problem.sites[pool.site].name},
                     {"request_type", partition.types[pool.type].name},
                     {"mode", problem.modes[pool.mode].name},
                     {"workers", pool.workers},
                     {"load_qps", pool.load_per_s}});
  }
  for (std::size_t r = 0; r < partition.types.size(); ++r) {
    if (plan.shed_per_s[r] > kLeastShed) shed[partition.types[r].name] = plan.shed_per_s[r];
  }
  object.update({{"partition", partition.name},
                 {"alpha", plan.alpha},
                 {"objective", plan.objective},
                 {"bound", plan.bound},
                 {"energy_j", plan.energy.value()},
                 {"carbon_g", plan.carbon.value()},
                 {"cost_usd", plan.cost.value()},
                 {"started_workers", plan.started},
                 {"shed_qps", shed},
                 {"pools", pools}});
  return object;
}

void print(const Window& window) {
  const plan::PoolsPlan& plan = window.plan;
  if (!plan.found()) {
    fmt::print("window {:>3}  {}\n", window.index, plan.reason);
    return;
  }
  const plan::RequestPartition& partition = window.problem.partitions[plan.partition];
  fmt::print("window {:>3}  partition {}  {:>9.1f} Wh  {:>9.1f} g CO2  {} started  {}{}\n", window.index,
             partition.name, plan.energy.value() / 3600, plan.carbon.value(), plan.started,
             plan::pools_status_name(plan.status), plan.binding.empty() ? "" : ": " + plan.reason);
  for (const plan::WorkerPool& pool : plan.pools) {
    fmt::print("    site {:<6} {:<6} {:>3} x {:<16} {:>8.2f} /s\n", window.problem.sites[pool.site].name,
               partition.types[pool.type].name, pool.workers, window.problem.modes[pool.mode].name, pool.load_per_s);
  }
}

Result<std::vector<Window>> plan_windows(const PoolsFlags& flags, const plan::PoolsData& data,
                                         const plan::PoolsOptions& options) {
  if (flags.slots_per_window == 0) return bad_input("--slots", "is 0; a window has at least one");
  const std::size_t first = data.first_window(flags.slots_per_window);
  const std::size_t end = data.end_window(flags.slots_per_window);
  if (first >= end) {
    return bad_input("--slots", fmt::format("is {}; the data have slots {} to {}, no whole window of them",
                                            flags.slots_per_window, data.first_slot(), data.end_slot() - 1));
  }
  const std::size_t left_before = first * flags.slots_per_window - data.first_slot();
  const std::size_t left_after = data.end_slot() - end * flags.slots_per_window;
  if (flags.windows.empty() && left_before + left_after > 0) {
    fmt::print(stderr,
               "note: {} slots at the beginning and {} at the end make no whole window of {} and are left out\n",
               left_before, left_after, flags.slots_per_window);
  }
  std::vector<std::size_t> wanted = flags.windows;
  if (wanted.empty()) {
    wanted.resize(end - first);
    std::iota(wanted.begin(), wanted.end(), first);
  }
  std::vector<Window> windows;
  const plan::PoolsPlan* previous = nullptr;
  windows.reserve(wanted.size());
  for (const std::size_t index : wanted) {
    if (index < first || index >= end) {
      return bad_input("--window", fmt::format("is {}; the data have windows {} to {}", index, first, end - 1));
    }
    Window window;
    window.index = index;
    window.problem = data.window(index * flags.slots_per_window, flags.slots_per_window, flags.beta);
    if (!flags.partitions.empty()) {
      std::vector<plan::RequestPartition> kept;
      for (const std::size_t p : flags.partitions) {
        if (p == 0 || p > window.problem.partitions.size())
          return bad_input("--partition", "counts from 1 in the profile's order");
        kept.push_back(window.problem.partitions[p - 1]);
      }
      window.problem.partitions = std::move(kept);
    }
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu_begin = std::clock();
    auto plan = plan_pools(window.problem, options, previous);
    window.solve_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    window.solve_cpu_ms = 1e3 * static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
    if (!plan) return std::unexpected(plan.error());
    window.plan = std::move(*plan);
    const auto faults = plan::check_pools(window.problem, options, window.plan, previous);
    if (!faults.empty()) {
      return std::unexpected(Error{ErrorKind::Failed, fmt::format("window {}", index),
                                   fmt::format("the plan fails its check: {}", fmt::join(faults, "; "))});
    }
    windows.push_back(std::move(window));
    if (windows.back().plan.found()) previous = &windows.back().plan;
  }
  return windows;
}

int plan_command(const PoolsFlags& flags) {
  if (!(flags.beta > 0.0) || !(flags.idle_share >= 0.0 && flags.idle_share <= 1.0) || !(flags.start_s >= 0.0) ||
      !(flags.gap >= 0.0 && flags.gap <= 1.0)) {
    return fail({ErrorKind::BadInput, "--beta, --idle-share, --start-s, --gap",
                 "beta must be above 0, the idle share and the gap from 0 to 1, the start at least 0"});
  }
  const auto options = options_from(flags);
  if (!options) return fail(options.error());
  const auto data = read_data(flags);
  if (!data) return fail(data.error());
  const auto windows = plan_windows(flags, *data, *options);
  if (!windows) return fail(windows.error());
  nlohmann::json list = nlohmann::json::array();
  Joules energy;
  GramsCo2 carbon;
  Usd cost;
  for (const Window& window : *windows) {
    energy += window.plan.energy;
    carbon += window.plan.carbon;
    cost += window.plan.cost;
    if (flags.json) {
      list.push_back(to_json(window));
    } else {
      print(window);
    }
  }
  if (flags.json) {
    const nlohmann::json object = {
        {"windows", list}, {"energy_j", energy.value()}, {"carbon_g", carbon.value()}, {"cost_usd", cost.value()}};
    fmt::print("{}\n", object.dump());
  } else {
    fmt::print("{} windows: {:.1f} Wh, {:.1f} g CO2 expected\n", windows->size(), energy.value() / 3600,
               carbon.value());
  }
  // Exit code 1, like a failed check, if no window has a feasible plan.
  return std::ranges::any_of(*windows, [](const Window& window) { return window.plan.found(); }) ? 0 : 1;
}

void add_pools(Command plan, int& exit_code) {
  auto flags = std::make_shared<PoolsFlags>();
  Command command = plan.add_subcommand("pools", "FREESH: which workers run at which site, window by window");
  const auto file = [&](const char* flag, auto& value, const char* text) {
    return command.add_option(flag, value, text);
  };
  file("--profile", flags->profile, "CSV: workers' power, rate and latency by partition, type and mode").required();
  file("--capacity", flags->capacity, "CSV: GPUs of each kind at each site").required();
  file("--demand", flags->demand, "CSV: requests/s by slot and type; once per partition, in the profile's order")
      .required();
  file("--emissions", flags->emissions, "CSV: intensity by slot and site").required();
  file("--slo", flags->slo, "CSV: latency limits by type").required();
  file("--prices", flags->prices, "CSV: USD/MWh by slot and site; needed for a cost objective");
  const auto number = [&](const char* flag, auto& value, const char* text) {
    command.add_option(flag, value, text).capture_default_str();
  };
  number("--alpha", flags->alpha, "Planned capacity as a multiple of peak demand");
  number("--beta", flags->beta, "Divisor of the demand before planning");
  number("--formulation", flags->formulation, "wattle, or published: as in FREESH's release");
  number("--objective", flags->objective, "carbon, energy, cost, or weights such as carbon:0.7,cost:0.3");
  number("--idle-share", flags->idle_share, "Idle power as a share of peak power, if the profile has no idle_power_w");
  number("--start-s", flags->start_s, "Time that a starting worker draws idle power (wattle)");
  number("--solver", flags->solver, "What solves the integer programs: cbc, or highs if the build contains it");
  number("--gap", flags->gap, "Stop when the plan is proven to be within this share of the optimum");
  number("--slots", flags->slots_per_window, "Slots per window, of 5 minutes");
  command.add_option("--window", flags->windows, "Only these windows, counted from slot 0 (default: all, in turn)");
  command.add_option("--partition", flags->partitions, "Only these partitions, from 1 (default: the best of all)");
  command.add_flag("--json", flags->json, "Print one JSON object");
  command.callback([flags, &exit_code] { exit_code = plan_command(*flags); });
}

}  // namespace

void add_plan(Command app, int& exit_code) {
  Command plan = app.add_subcommand("plan", "Plan capacity: what should run where");
  plan.require_subcommand();
  add_pools(plan, exit_code);
}

}  // namespace wattle::apps
