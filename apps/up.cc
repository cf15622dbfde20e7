// `wattle up`: the whole system on one machine. Real processes (mock engines, agent, gateway) use their real protocols
// over loopback; only the GPUs are virtual. A trace is replayed against the gateway in real time.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/file.h"
#include "commands.h"
#include "config/locate.h"
#include "config/service.h"
#include "end_signals.h"
#include "experiment/reference_run.h"
#include "experiment/saturation.h"
#include "figures.h"
#include "loadgen/clients_view.h"
#include "loadgen/replay.h"
#include "net/clock.h"
#include "node/gpu/nvml.h"
#include "replay_ending.h"
#include "systems/compose.h"
#include "systems/recipe.h"
#include "testbed/emulated_fleet.h"
#include "testbed/tally.h"
#include "testbed/working_folder.h"
#include "workload/first_part.h"

namespace wattle::apps {

namespace {

struct UpFlags {
  std::string config = "azure-conv-2p2d";
  std::string recipe = "eco-freq";
  std::string duration;
  std::vector<std::string> set;
  std::string out;
  std::string contract = "nixl";
  std::uint16_t port = 8000;
  std::uint16_t admin_port = 8001;
  double drain_s = 30;
  bool json = false;
};

/// "90", "90s", "5m", "1h" in seconds.
Result<Span> parse_duration(const std::string& text) {
  const auto wrong = bad_input("--for " + text, "is a number with s, m or h, such as 60s or 5m");
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double scale = unit.empty() || unit == "s" ? 1.0 : unit == "m" ? 60.0 : unit == "h" ? 3600.0 : 0.0;
  if (end == text.c_str() || scale == 0.0 || !(value > 0.0) || value * scale > 1e6) return wrong;
  return Span::from_seconds(value * scale);
}

/// An objective of the scenario, and how many requests met it.
struct Objective {
  const char* name;
  Span limit;
  double journal::Attainment::*met;
};

std::vector<Objective> stated(const Slo& slo) {
  std::vector<Objective> all;
  const auto add = [&](const char* name, const std::optional<Span>& limit, double journal::Attainment::*met) {
    if (limit) all.push_back({name, *limit, met});
  };
  add("TTFT", slo.ttft, &journal::Attainment::ttft);
  add("ITL", slo.itl, &journal::Attainment::itl);
  add("TBT", slo.tbt, &journal::Attainment::tbt);
  add("E2E", slo.e2e, &journal::Attainment::e2e);
  return all;
}

/// Share that met it: of those that are over, not of those that have arrived, as the summary has it (gaps are over
/// when they are seen).
double met_so_far(const Objective& objective, const journal::RunSummary& run) {
  const double share = run.slo.*objective.met;
  const auto over = run.requests.arrived - run.requests.in_flight;
  if (objective.met == &journal::Attainment::itl) return share;
  return over == 0 ? std::nan("") : share * static_cast<double>(run.requests.arrived) / static_cast<double>(over);
}

/// The run and its reference runs.
struct Plan {
  config::LoadedScenario scenario;
  systems::LoadedRecipe recipe;
  systems::SplitOverrides overrides;
  std::vector<std::string> set;  ///< for processes that load the scenario themselves
  std::string workload;          ///< for a person
  std::unique_ptr<workload::RequestSource> source;
  experiment::ReferenceRun baseline = {};  ///< static-max, simulated
  experiment::ReferenceRun forecast = {};  ///< the same recipe, simulated

  [[nodiscard]] bool scales() const { return recipe.recipe.scales(); }
};

/// Both simulated runs, on what arrives within `length`.
Result<void> compare_with(Plan& plan, const UpFlags& flags, Span length) {
  // Next to the emulated run, so that `wattle report` shows the saving.
  const auto baseline_run =
      flags.out.empty() ? std::string() : (std::filesystem::path(flags.out) / "static-max-simulated").string();
  auto baseline = experiment::reference_run(plan.scenario, "static-max", plan.overrides, length, baseline_run);
  if (!baseline) return std::unexpected(baseline.error());
  auto forecast = experiment::reference_run(plan.scenario, flags.recipe, plan.overrides, length, "");
  if (!forecast) return std::unexpected(forecast.error());
  plan.baseline = std::move(*baseline);
  plan.forecast = std::move(*forecast);
  return {};
}

/// Removes faults and changes that only the simulator supports, with a warning, so that both runs are comparable.
void leave_out_simulated(config::LoadedScenario& loaded) {
  auto& scenario = loaded.scenario;
  const auto left_out = [&](const char* what) {
    fmt::print(stderr, "wattle: warning: {}: {} happens to simulated fleets alone: left out\n", scenario.file, what);
  };
  if (!std::exchange(scenario.faults, {}).empty()) left_out("[[fault]]");
  if (std::exchange(scenario.measurement.sample_noise, 0.0) != 0.0) left_out("measurement.sample_noise");
  if (std::exchange(scenario.measurement.profile_scale, 1.0) != 1.0) left_out("measurement.profile_scale");
}

Result<Plan> make_plan(const UpFlags& flags) {
  // As real engines report; the simulation it is compared with, too.
  std::vector<std::string> given = flags.set;
  const auto says = [](const std::string& set) { return set.starts_with("measurement.telemetry="); };
  if (std::ranges::none_of(given, says)) given.insert(given.begin(), "measurement.telemetry=ends");
  const auto set = config::parse_overrides(given);
  if (!set) return std::unexpected(set.error());
  const auto overrides = systems::split_overrides(*set);
  if (!overrides) return std::unexpected(overrides.error());
  const auto loaded = config::load_scenario(flags.config, overrides->scenario, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  Span length = Span::max();
  if (!flags.duration.empty()) {
    const auto duration = parse_duration(flags.duration);
    if (!duration) return std::unexpected(duration.error());
    length = *duration;
  }
  auto recipe = systems::load_recipe(flags.recipe, overrides->recipe, config::project());
  if (!recipe) return std::unexpected(recipe.error());
  // What cannot start is refused before loads are measured and runs simulated.
  if (auto can = testbed::EmulatedFleet::check(*loaded, recipe->recipe.scales(), {flags.port, flags.admin_port});
      !can) {
    return std::unexpected(can.error());
  }
  if (const auto there = config::locate_workload(loaded->scenario, config::data_dir()); !there) {
    return std::unexpected(there.error());
  }
  config::LoadedScenario alike = *loaded;
  leave_out_simulated(alike);
  auto scenario = experiment::with_loads(alike, systems::needs_max_loads(recipe->recipe), config::data_dir());
  if (!scenario) return std::unexpected(scenario.error());
  // Maximum loads are measured once, here.
  std::vector<std::string> children = given;
  for (std::size_t p = 0; p < loaded->scenario.pools.size(); ++p) {
    const double measured = scenario->scenario.pools[p].max_load_per_s;
    if (loaded->scenario.pools[p].max_load_per_s == measured) continue;
    children.push_back(fmt::format("fleet.{}.max_load_per_s={}", p, measured));
  }
  const auto& options = scenario->scenario;
  const auto workload = config::locate_workload(options, config::data_dir());
  if (!workload) return std::unexpected(workload.error());
  auto whole = config::open_workload(*scenario, *workload, config::data_dir());
  if (!whole) return std::unexpected(whole.error());
  Plan plan{std::move(*scenario),
            std::move(*recipe),
            *overrides,
            std::move(children),
            workload->trace.empty() ? "a synthesised trace" : workload->trace,
            std::make_unique<workload::FirstPart>(std::move(*whole), length)};
  if (auto compared = compare_with(plan, flags, length); !compared) return std::unexpected(compared.error());
  return plan;
}

/// The result of the run; energies in joules, all over the same `seconds`, since slower clocks finish later.
struct Ended {
  const loadgen::ReplayReport& report;
  double seconds;
  testbed::EmulatedFleet::Booked booked;
  double baseline_j;
  double forecast_j;
  bool switching;         ///< the fleet's first switch was not over
  std::string no_saving;  ///< why none is stated; empty: saved() is
  [[nodiscard]] double saved() const { return 1.0 - booked.energy_j / baseline_j; }
};

/// Observes the running fleet.
class Watch {
 public:
  Watch(const UpFlags& flags, const Plan& plan, testbed::EmulatedFleet& fleet, std::vector<node::Gpu> gpus)
      : flags_(flags),
        plan_(plan),
        fleet_(fleet),
        gpus_(std::move(gpus)),
        objectives_(stated(plan.scenario.scenario.slo)),
        before_(fleet.booked().value_or(testbed::EmulatedFleet::Booked())),
        first_switch_(plan.scales()) {}

  void heading() const {
    if (flags_.json) return;
    fmt::print("gateway {}  admin {}/metrics\n", fleet_.gateway_url(), fleet_.admin_url());
    fmt::print("{} x {} (emulated), {}, recipe {}, {} requests of {}\n", gpus_.size(), plan_.scenario.gpus.front().name,
               plan_.scenario.scenario.llm, flags_.recipe, plan_.baseline.summary.requests.arrived, plan_.workload);
    fmt::print("saved: energy against static-max, simulated on the same arrivals{}\n",
               plan_.scales() ? ", with the fleet it begins with; none is shown before the first switch is over" : "");
    fmt::print("objectives:");
    for (const auto& o : objectives_) fmt::print(" {} {:.0f} ms", o.name, o.limit.millis());
    fmt::print("{}\n\n{:>6} {:>6} {:>6}", objectives_.empty() ? " none" : "", "time", "sent", "done");
    for (const auto& o : objectives_) fmt::print(" {:>7}", o.name);
    fmt::print(" {:>7} {:>9} {:>7}  {}\n", "watts", "energy", "saved", "clocks MHz");
    std::fflush(stdout);
  }

  /// A row each second.
  void show(const loadgen::ReplayProgress& progress) {
    const auto second = progress.now.ns() / 1'000'000'000;
    if (second < next_row_s_) return;
    next_row_s_ = second + 1;
    look();
    if (flags_.json) return;
    const auto readings = testbed::look(gpus_, running_);
    const double reference = plan_.baseline.energy_until(progress.now.seconds());
    const bool comparable = reference > 0.0 && !first_switch_.under_way() && !unmetered(progress.now.seconds());
    fmt::print("{:>5}s {:>6} {:>6}", second, progress.summary.requests.arrived, progress.summary.requests.left());
    for (const auto& o : objectives_) fmt::print(" {:>7}", percent(met_so_far(o, progress.summary)));
    fmt::print(" {:>7.0f} {:>6.1f} kJ {:>7}  {}\n", readings.power_w, booked_.energy_j / 1e3,
               comparable ? fmt::format("{:.1f}%", (1.0 - booked_.energy_j / reference) * 100.0) : "-",
               fmt::join(readings.clocks_mhz, " "));
    std::fflush(stdout);
  }

  [[nodiscard]] Ended end(const loadgen::ReplayReport& report, double seconds) {
    look();
    Ended ended{report,
                seconds,
                booked_,
                plan_.baseline.energy_until(seconds),
                plan_.forecast.energy_until(seconds),
                first_switch_.under_way(),
                ""};
    ended.no_saving = no_saving(ended);
    return ended;
  }

  void print(const Ended& ended) const;
  /// A gateway that is stopped (SIGSTOP) or stuck keeps its connections open: its clients would wait for minutes.
  [[nodiscard]] bool silent() const { return silent_since_ && net::steady_now() - *silent_since_ > kSilence; }
  static constexpr Span kSilence = Span::s(10);

 private:
  void look() {
    const Instant asked = net::steady_now();
    const auto now = fleet_.booked();
    read_ = now.has_value();
    if (!read_ && !silent_since_) silent_since_ = asked;
    if (now) {
      silent_since_.reset();
      booked_ = {now->energy_j - before_.energy_j, now->gpu_s - before_.gpu_s, now->unmetered_s - before_.unmetered_s};
    }
    running_ = fleet_.running();
    first_switch_.look(fleet_);
  }
  /// Whether so much of the fleet's time was not metered that a lower energy is no proof of a saving.
  [[nodiscard]] bool unmetered(double seconds) const {
    constexpr double kMost = 0.01;
    const auto engines = static_cast<double>(std::max<std::size_t>(1, running_.size()));
    return !read_ || booked_.unmetered_s > kMost * engines * seconds;
  }
  [[nodiscard]] std::string no_saving(const Ended& ended) const;

  const UpFlags& flags_;
  const Plan& plan_;
  testbed::EmulatedFleet& fleet_;
  std::vector<node::Gpu> gpus_;
  std::vector<Objective> objectives_;
  testbed::EmulatedFleet::Booked before_;
  testbed::EmulatedFleet::Booked booked_;  ///< since then
  std::optional<Instant> silent_since_;
  bool read_ = true;                               ///< whether the last reading succeeded
  std::vector<std::vector<std::string>> running_;  ///< likewise
  testbed::FirstSwitch first_switch_;
  std::int64_t next_row_s_ = 1;
};

void print_json(const UpFlags& flags, const Plan& plan, const Ended& ended) {
  const auto& live = ended.report.summary;
  nlohmann::ordered_json out;
  out["scenario"] = plan.scenario.scenario.name;
  out["recipe"] = flags.recipe;
  out["seconds"] = ended.seconds;
  out["requests"] = {{"arrived", live.requests.arrived},
                     {"finished", live.requests.finished},
                     {"rejected", live.requests.rejected},
                     {"failed", live.requests.failed},
                     {"cancelled", live.requests.cancelled}};
  out["interrupted"] = ended.report.interrupted;
  out["energy_j"] = ended.booked.energy_j;
  out["meters"] = "emulated";
  out["mean_gpus"] = ended.booked.gpu_s / ended.seconds;
  out["mean_power_w"] = ended.booked.energy_j / ended.seconds;
  const auto slo = [](const journal::Attainment& a) {
    return nlohmann::ordered_json{
        {"ttft_attainment", a.ttft}, {"itl_attainment", a.itl}, {"tbt_attainment", a.tbt}, {"e2e_attainment", a.e2e}};
  };
  out["slo"] = slo(live.slo);
  out["ttft_mean_ms"] = live.ttft.mean_ms;
  out["simulated"] = {{"static_max_energy_j", ended.baseline_j}, {"same_recipe_energy_j", ended.forecast_j}};
  out["simulated"].update(slo(plan.forecast.summary.slo));
  out["simulated"]["ttft_mean_ms"] = plan.forecast.summary.ttft.mean_ms;
  out["clamped"] = {{"prompts", plan.baseline.summary.requests.clamped_prompts},
                    {"outputs", plan.baseline.summary.requests.clamped_outputs}};
  out["extrapolated"] = plan.forecast.summary.extrapolated;
  out["saved"] = ended.no_saving.empty() ? nlohmann::ordered_json(ended.saved()) : nlohmann::ordered_json();
  if (!ended.no_saving.empty()) out["no_saving"] = ended.no_saving;
  if (plan.scales()) out["first_switch_over"] = !ended.switching;
  fmt::print("{}\n", out.dump());
}

std::string Watch::no_saving(const Ended& ended) const {
  if (ended.switching) {
    const auto& spawn = plan_.scenario.scenario.spawn;
    return fmt::format(
        "the fleet's first switch was not over: two engines drew power for one's work (spawn.load_s and warm_s: {:.0f} "
        "s, every scaling.period_s: {:.0f} s); give it longer with --for",
        (spawn.load + spawn.warm).seconds(), plan_.recipe.recipe.scaling_period.seconds());
  }
  if (!read_) return "the gateway did not report the energy";
  if (unmetered(ended.seconds)) {
    return fmt::format("{:.0f} s of its engines' time were not metered", ended.booked.unmetered_s);
  }
  const auto& live = ended.report.summary;
  const auto& simulated = plan_.baseline.summary;
  if (live.did_less_than(simulated)) {
    return fmt::format("it did less: {} requests finished with {} tokens, {} and {} simulated", live.requests.finished,
                       live.tokens.output, simulated.requests.finished, simulated.tokens.output);
  }
  return ended.baseline_j > 0.0 ? "" : "nothing was drawn in the simulation";
}

void Watch::print(const Ended& ended) const {
  if (flags_.json) return print_json(flags_, plan_, ended);
  const auto& live = ended.report.summary;
  fmt::print("\n{} requests in {:.0f} s: {} finished, {} failed or rejected\n", live.requests.arrived, ended.seconds,
             live.requests.finished, live.requests.failed + live.requests.rejected);
  print_interrupted(ended.report);
  fmt::print("{:<34} {:>9}", fmt::format("over {:.0f} s", ended.seconds), "energy");
  for (const auto& o : objectives_) fmt::print(" {:>7}", o.name);
  fmt::print("\n");
  const auto row = [&](const std::string& name, double energy_j, const journal::RunSummary& run) {
    fmt::print("{:<34} {:>6.1f} kJ", name, energy_j / 1e3);
    for (const auto& o : objectives_) fmt::print(" {:>7}", percent(run.slo.*o.met));
    fmt::print("\n");
  };
  row(flags_.recipe + ", emulated", ended.booked.energy_j, live);
  if (flags_.recipe != "static-max") row(flags_.recipe + ", simulated", ended.forecast_j, plan_.forecast.summary);
  row("static-max, simulated", ended.baseline_j, plan_.baseline.summary);
  if (ended.no_saving.empty()) {
    fmt::print("saved against static-max: {:.1f} %\n", ended.saved() * 100.0);
  } else {
    fmt::print("note: no saving is stated, as {}\n", ended.no_saving);
  }
  const auto& clamped = plan_.baseline.summary.requests;
  print_changed(clamped.clamped_prompts, clamped.clamped_outputs, clamped.skipped_failed, kWorkloadLimits);
  print_extrapolated(plan_.baseline.summary);
  if (plan_.forecast.summary.recipe != plan_.baseline.summary.recipe) print_extrapolated(plan_.forecast.summary);
  if (ended.report.latest_start > Span::ms(20)) {
    fmt::print("note: requests went out up to {:.0f} ms late; this machine was the bottleneck\n",
               ended.report.latest_start.millis());
  }
}

Result<int> up(const UpFlags& flags) {
  auto plan = make_plan(flags);
  if (!plan) return std::unexpected(plan.error());
  const auto& scenario = plan->scenario.scenario;
  handle_end_signals(SecondSignal::IsReported);
  auto folder = testbed::WorkingFolder::make(temporary_folder(), "wattle-up");
  if (!folder) return std::unexpected(folder.error());
  testbed::EmulatedFleet fleet(std::move(*folder));
  const testbed::FleetPlan processes{.scenario = plan->scenario,
                                     .config = flags.config,
                                     .recipe = flags.recipe,
                                     .set = plan->set,
                                     .contract = flags.contract,
                                     .journal = flags.out,
                                     .port = flags.port,
                                     .admin_port = flags.admin_port,
                                     .scales = plan->scales()};
  if (auto built = fleet.build(processes); !built) return std::unexpected(built.error());
  const auto nvml = node::Nvml::open(config::library_file(WATTLE_FAKE_NVML_LIBRARY));
  if (!nvml) return std::unexpected(nvml.error());
  std::vector<node::Gpu> gpus;
  for (std::uint32_t i = 0; i < (*nvml)->count().value_or(0); ++i) {
    if (auto gpu = (*nvml)->by_index(i)) gpus.push_back(std::move(*gpu));
  }

  Watch watch(flags, *plan, fleet, std::move(gpus));
  watch.heading();
  loadgen::ReplayOptions replay;
  replay.url = fleet.gateway_url();
  replay.model = scenario.llm;
  replay.slo = scenario.slo;
  replay.max_tokens = scenario.workload.max_output_tokens;
  replay.ending = [&watch] { return watch.silent() ? loadgen::Ending::AtOnce : replay_ending(); };
  replay.drain = Span::from_seconds(flags.drain_s);
  const auto classes = config::make_service(scenario, plan->recipe.recipe.classes).classes;
  const auto made_hint = systems::make_length_hint(plan->recipe.recipe, classes, scenario.seed);
  if (!made_hint) return std::unexpected(made_hint.error());
  const auto& hint = *made_hint;
  const auto rows = [&]() -> std::optional<loadgen::ReplayRow> {
    const auto row = plan->source->next();
    if (!row) return std::nullopt;
    const auto hinted = hint ? hint->predict(row->output_tokens, replay.max_tokens) : 0;
    return loadgen::ReplayRow{row->arrival, row->prompt_tokens, row->output_tokens, hinted, row->content};
  };
  const Instant begin = net::steady_now();
  const auto report = loadgen::replay(rows, replay, [&watch](const auto& progress) {
    bool read = true;  // somebody reads the table
    try {
      watch.show(progress);
      read = std::ferror(stdout) == 0;
    } catch (const std::system_error&) {
      read = false;
    }
    if (!read) want_end();
  });
  if (!report) return std::unexpected(report.error());
  if (watch.silent() && fleet.dead() == nullptr) {
    return external_failure("gateway", fmt::format("has not answered for {:.0f} s", Watch::kSilence.seconds()));
  }
  if (report->interrupted) {  // the same arrivals, not those that Ctrl-C kept back
    if (auto compared = compare_with(*plan, flags, report->sent); !compared) return std::unexpected(compared.error());
  }
  const Ended ended = watch.end(*report, (net::steady_now() - begin).seconds());
  const launch::Child* child = fleet.dead();
  const std::string dead = child == nullptr ? "" : child->name();
  if (!flags.out.empty()) {
    fleet.end();
    if (auto written = loadgen::write_clients_view(flags.out, report->summary, report->curves); !written) {
      return std::unexpected(written.error());
    }
  }
  watch.print(ended);
  if (!dead.empty()) return external_failure(dead, "died during the run");
  const auto& requests = report->summary.requests;
  return requests.finished + requests.cancelled == requests.arrived ? 0 : 1;  // `up` itself cut off the cancelled ones
}

}  // namespace

void add_up(Command app, int& exit_code) {
  auto flags = std::make_shared<UpFlags>();
  Command command = app.add_subcommand(
      "up", "Run gateway, agent and an emulated fleet in real time, with a trace replayed against them");
  command.add_option("--config", flags->config, "name or file of a scenario").capture_default_str();
  command.add_option("--recipe", flags->recipe, "name or file of a recipe").capture_default_str();
  command.add_option("--for", flags->duration, "duration, such as 60s or 5m; default: to the trace's end or Ctrl-C");
  command.add_option("--set", flags->set, "key=value: any scenario or recipe key by its dotted path");
  command.add_option(
      "-o,--out", flags->out,
      "run directory for `wattle report`: decisions, requests with their energy, power and clocks over time");
  command.add_option("--pd-contract", flags->contract, "protocol between prefill and decode engines")
      .check(one_of({"nixl", "sglang"}))
      .capture_default_str();
  command.add_option("--port", flags->port, "the gateway's port on 127.0.0.1; 0: any free one").capture_default_str();
  command.add_option("--admin-port", flags->admin_port, "the admin plane's port").capture_default_str();
  add_drain_flag(command, flags->drain_s);
  command.add_flag("--json", flags->json, "no table; one JSON object at the end");
  command.callback([flags, &exit_code] {
    const auto result = up(*flags);
    exit_code = result ? *result : fail(result.error());
  });
}

}  // namespace wattle::apps
