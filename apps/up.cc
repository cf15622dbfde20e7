// `wattle up`: the whole system on one machine. Real processes (mock engines, agent, gateway) speak their real
// protocols over loopback; only the GPUs are virtual. A trace is replayed against the gateway in real time.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "carbon/ledger.h"
#include "commands.h"
#include "config/locate.h"
#include "experiment/saturation.h"
#include "experiment/simulate.h"
#include "journal/run_directory.h"
#include "journal/tee.h"
#include "loadgen/replay.h"
#include "net/clock.h"
#include "node/gpu/nvml.h"
#include "systems/compose.h"
#include "systems/recipe.h"
#include "testbed/house.h"
#include "testbed/tally.h"

namespace wattle::apps {

namespace {

std::atomic<bool> drain_wanted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch it");
void on_signal(int) { drain_wanted = true; }

struct UpFlags {
  std::string config = "azure-conv-2p2d";
  std::string recipe = "eco-freq";
  std::string duration;
  std::vector<std::string> set;
  std::string out;
  std::string contract = "nixl";
  std::uint16_t port = 8000;
  std::uint16_t admin_port = 8001;
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

constexpr Span kBaselinePeriod = Span::ms(50);

/// Energy of a simulated run against time, by its ledger: what the live run is compared with.
class Baseline final : public journal::Sink {
 public:
  void sample(const journal::Sample& s) override {
    const auto second = static_cast<std::size_t>((s.at.ns() - 1) / 1'000'000'000);
    const auto instance = static_cast<std::size_t>(s.instance.value());
    if (booked_.size() <= instance) booked_.resize(instance + 1);
    total_ += s.energy - std::exchange(booked_[instance], s.energy);
    energy_j_.resize(std::max(energy_j_.size(), second + 1));
    energy_j_[second] = total_.joules().value();
  }
  /// Cumulative, at the end of each second.
  [[nodiscard]] const std::vector<double>& cumulative() const { return energy_j_; }

 private:
  std::vector<Picojoules> booked_;  ///< by instance, so far
  Picojoules total_;
  std::vector<double> energy_j_;
};

struct Simulated {
  journal::RunSummary summary;
  std::vector<double> energy_j;  ///< cumulative, by second
  Milliwatts idle_power;         ///< of the whole fleet without work

  /// Its GPUs go on drawing power when its requests have ended before those of the live run.
  [[nodiscard]] double energy_until(double seconds) const {
    const double end = summary.sim.virtual_s;
    const auto whole = static_cast<std::size_t>(seconds);
    if (seconds >= end || whole >= energy_j.size()) {
      carbon::Ledger after(std::vector<carbon::SiteRates>(1));
      after.add_instance(Instant(), 1);
      after.power_changes(InstanceId(0), Instant(), idle_power, 0, 0);
      const auto idle = after.energy_until(InstanceId(0), Instant() + Span::from_seconds(std::max(0.0, seconds - end)));
      return (summary.energy.total + idle.joules()).value();
    }
    const double before = whole == 0 ? 0.0 : energy_j[whole - 1];
    return before + (seconds - static_cast<double>(whole)) * (energy_j[whole] - before);
  }
};

/// The first part of a workload: what arrives within so much of the run's own time.
class FirstPart final : public workload::RequestSource {
 public:
  FirstPart(std::unique_ptr<workload::RequestSource> whole, Span length) : whole_(std::move(whole)), length_(length) {}
  std::optional<workload::TraceRow> next() override {
    auto row = over_ ? std::nullopt : whole_->next();
    over_ = !row || (length_ != Span::max() && row->arrival >= Instant() + length_);
    return over_ ? std::nullopt : row;
  }
  [[nodiscard]] workload::WorkloadStats stats() const override { return whole_->stats(); }

 private:
  std::unique_ptr<workload::RequestSource> whole_;
  Span length_;
  bool over_ = false;
};

Result<Simulated> simulate_same(const config::LoadedScenario& scenario, const std::string& recipe_name,
                                const systems::SplitOverrides& overrides, Span length, const std::string& out) {
  // Compared recipes share their overrides: the baseline's policies may lack the keys of the other's.
  const auto recipe = systems::load_recipe(recipe_name, overrides.recipe, config::project(), systems::Unfit::Ignored);
  if (!recipe) return std::unexpected(recipe.error());
  auto run = experiment::prepare_run(scenario, *recipe, config::data_dir());
  if (!run) return std::unexpected(run.error());
  run->source = std::make_unique<FirstPart>(std::move(run->source), length);
  run->setup.source = run->source.get();
  Baseline baseline;
  run->setup.sample_period = kBaselinePeriod;
  journal::Tee sinks({&baseline});
  std::unique_ptr<journal::RunWriter> writer;
  if (!out.empty()) {
    auto opened = journal::RunWriter::open(out, run->facts);
    if (!opened) return std::unexpected(opened.error());
    writer = std::move(*opened);
    sinks.add(writer.get());
  }
  run->setup.sink = &sinks;
  Simulated simulated;
  for (const auto& instance : run->setup.instances) {
    const auto idle = instance.model->idle_power(instance.initial_clock);
    simulated.idle_power = Milliwatts(simulated.idle_power.value() + idle.value());
  }
  auto result = sim::simulate(std::move(run->setup));
  simulated.summary = std::move(result.summary);
  simulated.summary.recipe = recipe_name;
  simulated.energy_j = baseline.cumulative();
  if (writer) {
    if (auto closed = writer->close(simulated.summary, result.curves); !closed) return std::unexpected(closed.error());
  }
  return simulated;
}

/// An objective the scenario states, and who met it.
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
  return over == 0 ? 1.0 : share * static_cast<double>(run.requests.arrived) / static_cast<double>(over);
}

/// Whether a fleet that scales is still on its way from what it began with: until then two engines do one's work.
class FirstSwitch {
 public:
  explicit FirstSwitch(bool scales) : over_(!scales) {}
  void look(testbed::House& house) {
    if (over_) return;
    const bool switching = house.switching();
    over_ = begun_ && !switching;
    begun_ = begun_ || switching;
  }
  [[nodiscard]] bool under_way() const { return begun_ && !over_; }

 private:
  bool begun_ = false;
  bool over_ = false;
};

/// The gateway's journal, with latencies as the clients have seen them, every single gap among them.
Result<void> write_clients_view(const std::string& directory, const journal::RunSummary& clients,
                                const journal::RunCurves& curves) {
  auto run = journal::read_run(directory);
  if (!run) return std::unexpected(run.error());
  run->summary.slo = clients.slo;
  run->summary.ttft = clients.ttft;
  run->summary.itl = clients.itl;
  run->summary.tbt = clients.tbt;
  run->summary.e2e = clients.e2e;
  run->curves = curves;
  return write_file((std::filesystem::path(directory) / "run.json").string(), journal::run_json(*run));
}

Result<int> up(const UpFlags& flags) {
  const auto set = config::parse_overrides(flags.set);
  if (!set) return std::unexpected(set.error());
  const auto overrides = systems::split_overrides(*set);
  if (!overrides) return std::unexpected(overrides.error());
  auto loaded = config::load_scenario(flags.config, overrides->scenario, config::project());
  if (!loaded) return std::unexpected(loaded.error());
  auto& scenario = loaded->scenario;
  Span length = Span::max();
  if (!flags.duration.empty()) {
    const auto duration = parse_duration(flags.duration);
    if (!duration) return std::unexpected(duration.error());
    length = *duration;
  }

  const auto recipe = systems::load_recipe(flags.recipe, overrides->recipe, config::project());
  if (!recipe) return std::unexpected(recipe.error());
  const bool scales = recipe->recipe.scales();
  auto with = experiment::with_loads(*loaded, scales, config::data_dir());
  if (!with) return std::unexpected(with.error());
  // Processes that load the scenario themselves need not measure it again.
  std::vector<std::string> set_for_children = flags.set;
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    const double measured = with->scenario.pools[p].max_load_per_s;
    if (scenario.pools[p].max_load_per_s == measured) continue;
    set_for_children.push_back(fmt::format("fleet.{}.max_load_per_s={}", p, measured));
  }
  *loaded = std::move(*with);

  // Beside the emulated run, so that `wattle report` shows what was saved.
  const auto baseline_run =
      flags.out.empty() ? std::string() : (std::filesystem::path(flags.out) / "static-max-simulated").string();
  const auto baseline = simulate_same(*loaded, "static-max", *overrides, length, baseline_run);
  if (!baseline) return std::unexpected(baseline.error());
  const auto forecast = simulate_same(*loaded, flags.recipe, *overrides, length, "");
  if (!forecast) return std::unexpected(forecast.error());
  const auto options = config::locate_workload(scenario, config::data_dir());
  if (!options) return std::unexpected(options.error());
  auto whole = workload::make_source(*options, config::data_dir(), config::base_dir(scenario), scenario.seed);
  if (!whole) return std::unexpected(whole.error());
  FirstPart source(std::move(*whole), length);

  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  testbed::House house(std::filesystem::temp_directory_path() / fmt::format("wattle-up-{}", getpid()));
  const testbed::HousePlan plan{.scenario = *loaded,
                                .config = flags.config,
                                .recipe = flags.recipe,
                                .recipe_overrides = overrides->recipe,
                                .set = set_for_children,
                                .contract = flags.contract,
                                .journal = flags.out,
                                .port = flags.port,
                                .admin_port = flags.admin_port,
                                .scales = scales};
  if (auto built = house.build(plan); !built) return std::unexpected(built.error());

  const auto nvml = node::Nvml::open(WATTLE_FAKE_NVML_LIBRARY);
  if (!nvml) return std::unexpected(nvml.error());
  std::vector<node::Gpu> gpus;
  for (std::uint32_t i = 0; i < (*nvml)->count().value_or(0); ++i) {
    if (auto gpu = (*nvml)->by_index(i)) gpus.push_back(std::move(*gpu));
  }

  const auto objectives = stated(scenario.slo);
  if (!flags.json) {
    fmt::print("gateway {}  admin {}/metrics\n", house.gateway_url(), house.admin_url());
    fmt::print("{} x {} (emulated), {}, recipe {}, {} requests of {}\n", gpus.size(), loaded->gpus.front().name,
               scenario.llm, flags.recipe, baseline->summary.requests.arrived,
               options->trace.empty() ? "a synthesised trace" : options->trace);
    fmt::print("saved: energy against static-max, simulated on the same arrivals{}\n",
               scales ? ", with the fleet it begins with; none is shown before the first switch is over" : "");
    fmt::print("objectives:");
    for (const auto& o : objectives) fmt::print(" {} {:.0f} ms", o.name, o.limit.millis());
    fmt::print("{}\n\n{:>6} {:>6} {:>6}", objectives.empty() ? " none" : "", "time", "sent", "done");
    for (const auto& o : objectives) fmt::print(" {:>7}", o.name);
    fmt::print(" {:>7} {:>9} {:>7}  {}\n", "watts", "energy", "saved", "clocks MHz");
    std::fflush(stdout);
  }

  loadgen::ReplayOptions replay;
  replay.url = house.gateway_url();
  replay.model = scenario.llm;
  replay.slo = scenario.slo;
  replay.max_tokens = scenario.workload.max_output_tokens;
  const auto hint = systems::make_length_hint(recipe->recipe, scenario.seed);
  const auto booked_before = house.booked().value_or(testbed::House::Booked());
  testbed::House::Booked booked;  // since then
  const auto look = [&] {
    if (const auto now = house.booked()) {
      booked = {now->energy_j - booked_before.energy_j, now->gpu_s - booked_before.gpu_s};
    }
  };
  FirstSwitch first_switch(scales);
  const Instant begin = net::steady_now();
  std::int64_t next_row_s = 1;
  const auto rows = [&]() -> std::optional<loadgen::ReplayRow> {
    if (drain_wanted) return std::nullopt;
    const auto row = source.next();
    if (!row) return std::nullopt;
    const auto hinted = hint ? hint->predict(row->output_tokens, replay.max_tokens) : 0;
    return loadgen::ReplayRow{row->arrival, row->prompt_tokens, row->output_tokens, hinted};
  };
  const auto show = [&](const loadgen::ReplayProgress& progress) {
    const auto second = progress.now.ns() / 1'000'000'000;
    if (second < next_row_s) return;
    next_row_s = second + 1;
    look();
    first_switch.look(house);
    if (flags.json) return;
    const auto readings = testbed::look(gpus, house);
    const double reference = baseline->energy_until(progress.now.seconds());
    const bool comparable = reference > 0.0 && !first_switch.under_way();
    fmt::print("{:>5}s {:>6} {:>6}", second, progress.sent, progress.over);
    for (const auto& o : objectives) fmt::print(" {:>6.1f}%", met_so_far(o, progress.summary) * 100.0);
    fmt::print(" {:>7.0f} {:>6.1f} kJ {:>7}  {}\n", readings.power_w, booked.energy_j / 1e3,
               comparable ? fmt::format("{:.1f}%", (1.0 - booked.energy_j / reference) * 100.0) : "-",
               fmt::join(readings.clocks_mhz, " "));
    std::fflush(stdout);
  };
  const auto report = loadgen::replay(rows, replay, show);
  if (!report) return std::unexpected(report.error());
  const double seconds = (net::steady_now() - begin).seconds();
  look();
  const double energy = booked.energy_j;
  const launch::Child* child = house.dead();
  const std::string dead = child == nullptr ? "" : child->name();

  const auto& live_run = report->summary;
  // All over the same time: Ctrl-C cuts a run short, and slower clocks take longer to the last answer.
  const double reference = baseline->energy_until(seconds);
  first_switch.look(house);
  if (!flags.out.empty()) {
    house.end();
    if (auto written = write_clients_view(flags.out, live_run, report->curves); !written)
      return std::unexpected(written.error());
  }
  if (flags.json) {
    nlohmann::ordered_json out;
    out["scenario"] = scenario.name;
    out["recipe"] = flags.recipe;
    out["seconds"] = seconds;
    out["requests"] = {{"arrived", live_run.requests.arrived},
                       {"finished", live_run.requests.finished},
                       {"rejected", live_run.requests.rejected},
                       {"failed", live_run.requests.failed}};
    out["energy_j"] = energy;
    out["meters"] = "emulated";
    out["mean_gpus"] = booked.gpu_s / seconds;
    out["mean_power_w"] = energy / seconds;
    const auto slo = [](const journal::Attainment& a) {
      return nlohmann::ordered_json{
          {"ttft_attainment", a.ttft}, {"itl_attainment", a.itl}, {"tbt_attainment", a.tbt}, {"e2e_attainment", a.e2e}};
    };
    out["slo"] = slo(live_run.slo);
    out["ttft_mean_ms"] = live_run.ttft.mean_ms;
    out["simulated"] = {{"static_max_energy_j", reference}, {"same_recipe_energy_j", forecast->energy_until(seconds)}};
    out["simulated"].update(slo(forecast->summary.slo));
    out["simulated"]["ttft_mean_ms"] = forecast->summary.ttft.mean_ms;
    out["saved"] = reference > 0.0 ? 1.0 - energy / reference : 0.0;
    if (scales) out["first_switch_over"] = !first_switch.under_way();
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("\n{} requests in {:.0f} s: {} finished, {} failed or rejected\n", live_run.requests.arrived, seconds,
               live_run.requests.finished, live_run.requests.arrived - live_run.requests.finished);
    fmt::print("{:<34} {:>9}", fmt::format("over {:.0f} s", seconds), "energy");
    for (const auto& o : objectives) fmt::print(" {:>7}", o.name);
    fmt::print("\n");
    const auto row = [&](const std::string& name, double energy_j, const journal::RunSummary& run) {
      fmt::print("{:<34} {:>6.1f} kJ", name, energy_j / 1e3);
      for (const auto& o : objectives) fmt::print(" {:>6.1f}%", run.slo.*o.met * 100.0);
      fmt::print("\n");
    };
    row(flags.recipe + ", emulated", energy, live_run);
    row(flags.recipe + ", simulated", forecast->energy_until(seconds), forecast->summary);
    row("static-max, simulated", reference, baseline->summary);
    if (first_switch.under_way()) {
      fmt::print(
          "note: no saving is stated, as the fleet's first switch was not over: two engines drew power for one's work "
          "(spawn.load_s and warm_s: {:.0f} s, every scaling.period_s: {:.0f} s); give it longer with --for\n",
          (scenario.spawn.load + scenario.spawn.warm).seconds(), recipe->recipe.scaling_period.seconds());
    } else {
      fmt::print("saved against static-max: {:.1f} %\n", reference > 0.0 ? (1.0 - energy / reference) * 100.0 : 0.0);
    }
    if (report->latest_start > Span::ms(20)) {
      fmt::print("note: requests went out up to {:.0f} ms late; this machine was the bottleneck\n",
                 report->latest_start.millis());
    }
  }
  if (!dead.empty()) return external_failure(dead, "died during the run");
  return live_run.requests.finished == live_run.requests.arrived ? 0 : 1;
}

}  // namespace

void add_up(Command app, int& exit_code) {
  auto flags = std::make_shared<UpFlags>();
  Command command =
      app.add_subcommand("up", "gateway, agent and an emulated fleet in real time, with a trace replayed against them");
  command.add_option("--config", flags->config, "name or file of a scenario").capture_default_str();
  command.add_option("--recipe", flags->recipe, "name or file of a recipe").capture_default_str();
  command.add_option("--for", flags->duration, "how long, such as 60s or 5m; default: to the trace's end or Ctrl-C");
  command.add_option("--set", flags->set, "key=value: any scenario or recipe key by its dotted path");
  command.add_option(
      "--out", flags->out,
      "run directory for `wattle report`: decisions, requests with their energy, power and clocks over time");
  command.add_option("--pd-contract", flags->contract, "between prefill and decode engines")
      .check(one_of({"nixl", "sglang"}))
      .capture_default_str();
  command.add_option("--port", flags->port, "of the gateway on 127.0.0.1; 0 takes a free one").capture_default_str();
  command.add_option("--admin-port", flags->admin_port, "of its admin plane").capture_default_str();
  command.add_flag("--json", flags->json, "no table; one JSON object at the end");
  command.callback([flags, &exit_code] {
    const auto result = up(*flags);
    exit_code = result ? *result : fail(result.error());
  });
}

}  // namespace wattle::apps
