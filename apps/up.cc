// `wattle up`: the whole house on one machine. Real processes (mock engines, agent, gateway) speak their real protocols
// over loopback; only the GPUs are virtual. A trace is replayed against the gateway in real time.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "commands.h"
#include "compose.h"
#include "house.h"
#include "journal/run_directory.h"
#include "live/clock.h"
#include "live/gpu/nvml.h"
#include "live/replay/replay.h"
#include "locate.h"
#include "saturation.h"
#include "simulate.h"
#include "tally.h"

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

/// Energy of a simulated run against time, from its power samples: what the live run is compared with.
class Baseline final : public journal::Sink {
 public:
  void sample(const journal::Sample& s) override {
    const auto i = static_cast<std::size_t>((s.at.ns() - 1) / 1'000'000'000);
    if (energy_j_.size() <= i) energy_j_.resize(i + 1, 0.0);
    energy_j_[i] += to_watts(s.power).value() * kBaselinePeriod.seconds();
  }
  /// Cumulative; after its end, its last value.
  [[nodiscard]] std::vector<double> cumulative() const {
    std::vector<double> sum = energy_j_;
    for (std::size_t i = 1; i < sum.size(); ++i) sum[i] += sum[i - 1];
    return sum;
  }

 private:
  std::vector<double> energy_j_;
};

struct Simulated {
  journal::RunSummary summary;
  std::vector<double> energy_j;  ///< cumulative, by second
};

Result<Simulated> simulate_same(const config::LoadedScenario& scenario, const std::string& recipe_name,
                                const config::SplitOverrides& overrides) {
  const auto recipe = config::load_recipe(recipe_name, overrides.recipe, project());
  if (!recipe) return std::unexpected(recipe.error());
  auto run = prepare_run(scenario, *recipe, data_dir());
  if (!run) return std::unexpected(run.error());
  Baseline baseline;
  run->setup.sample_period = kBaselinePeriod;
  run->setup.sink = &baseline;
  auto result = sim::simulate(std::move(run->setup));
  return Simulated{std::move(result.summary), baseline.cumulative()};
}

/// Share of the requests that are over which met it; the summary counts those still on their way as misses.
double of_those_over(double share_of_arrived, const journal::RequestCounts& counts) {
  const auto over = counts.arrived - counts.in_flight;
  return over == 0 ? 1.0 : share_of_arrived * static_cast<double>(counts.arrived) / static_cast<double>(over);
}

/// The gateway's journal, with latencies as the clients have seen them, every single gap among them.
Result<void> tell_clients_view(const std::string& directory, const journal::RunSummary& clients,
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
  const auto overrides = config::split_overrides(*set);
  if (!overrides) return std::unexpected(overrides.error());
  auto loaded = config::load_scenario(flags.config, overrides->scenario, project());
  if (!loaded) return std::unexpected(loaded.error());
  auto& scenario = loaded->scenario;
  if (!flags.duration.empty()) {
    const auto duration = parse_duration(flags.duration);
    if (!duration) return std::unexpected(duration.error());
    // --for is real time; the slice is cut in the trace's own.
    scenario.workload.duration = Span::from_seconds(duration->seconds() * scenario.workload.rate_scale);
  }

  const auto recipe = config::load_recipe(flags.recipe, overrides->recipe, project());
  if (!recipe) return std::unexpected(recipe.error());
  const bool scales = recipe->recipe.scaling.policy != "none" && recipe->recipe.scaling.mode != Mode::Off;
  auto with = with_loads(*loaded, scales, data_dir());
  if (!with) return std::unexpected(with.error());
  *loaded = std::move(*with);
  if (scenario.workload.peak_rate_per_s > 0.0 && scenario.workload.duration != Span::max()) {
    // A short slice has its own busiest and calmest moments.
    scenario.workload.rate_window = std::min(scenario.workload.rate_window, scenario.workload.duration / 2);
  }

  const auto baseline = simulate_same(*loaded, "static-max", *overrides);
  if (!baseline) return std::unexpected(baseline.error());
  const auto forecast = simulate_same(*loaded, flags.recipe, *overrides);
  if (!forecast) return std::unexpected(forecast.error());
  const auto options = locate_workload(scenario, data_dir());
  if (!options) return std::unexpected(options.error());
  auto source = workload::make_source(*options, data_dir(), base_dir(scenario), scenario.seed);
  if (!source) return std::unexpected(source.error());

  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  House house(std::filesystem::temp_directory_path() / fmt::format("wattle-up-{}", getpid()));
  const HousePlan plan{.scenario = *loaded,
                       .config = flags.config,
                       .recipe = flags.recipe,
                       .recipe_overrides = overrides->recipe,
                       .set = flags.set,
                       .contract = flags.contract,
                       .journal = flags.out,
                       .port = flags.port,
                       .admin_port = flags.admin_port,
                       .scales = scales};
  if (auto built = house.build(plan); !built) return std::unexpected(built.error());

  const auto nvml = live::Nvml::open(WATTLE_FAKE_NVML_LIBRARY);
  if (!nvml) return std::unexpected(nvml.error());
  std::vector<live::Gpu> gpus;
  for (std::uint32_t i = 0; i < (*nvml)->count().value_or(0); ++i) {
    if (auto gpu = (*nvml)->by_index(i)) gpus.push_back(std::move(*gpu));
  }

  if (!flags.json) {
    fmt::print("gateway {}  admin {}/metrics\n", house.gateway_url(), house.admin_url());
    fmt::print("{} x {} (emulated), {}, recipe {}, {} requests of {}\n", gpus.size(), loaded->gpus.front().name,
               scenario.llm, flags.recipe, baseline->summary.requests.arrived,
               options->trace.empty() ? "a synthesised trace" : options->trace);
    fmt::print(
        "saved: energy against static-max, simulated on the same arrivals; SLO TTFT {:.0f} ms, ITL {:.0f} ms\n\n",
        scenario.slo.ttft.value_or(Span()).millis(), scenario.slo.itl.value_or(Span()).millis());
    fmt::print("{:>6} {:>6} {:>6} {:>7} {:>7} {:>7} {:>9} {:>7}  {}\n", "time", "sent", "done", "TTFT", "ITL", "watts",
               "energy", "saved", "clocks MHz");
    std::fflush(stdout);
  }

  live::ReplayOptions replay;
  replay.url = house.gateway_url();
  replay.model = scenario.llm;
  replay.slo = scenario.slo;
  replay.max_tokens = scenario.workload.max_output_tokens;
  const auto hint = make_length_hint(recipe->recipe, scenario.seed);
  Tally tally(gpus, house);
  const Instant begin = live::steady_now();
  std::int64_t next_row_s = 1;
  const auto rows = [&]() -> std::optional<live::ReplayRow> {
    if (drain_wanted) return std::nullopt;
    const auto row = (*source)->next();
    if (!row) return std::nullopt;
    const auto told = hint ? hint->predict(row->output_tokens, replay.max_tokens) : 0;
    return live::ReplayRow{row->arrival, row->prompt_tokens, row->output_tokens, told};
  };
  const auto show = [&](const live::ReplayProgress& progress) {
    const auto second = progress.now.ns() / 1'000'000'000;
    if (second < next_row_s) return;
    next_row_s = second + 1;
    const Meters& meters = tally.look();
    if (flags.json) return;
    const double energy = tally.energy_j();
    const auto i = std::min(static_cast<std::size_t>(second), baseline->energy_j.size()) - 1;
    const double reference = baseline->energy_j.empty() ? 0.0 : baseline->energy_j[i];
    fmt::print("{:>5}s {:>6} {:>6} {:>6.1f}% {:>6.1f}% {:>7.0f} {:>6.1f} kJ {:>6.1f}%  {}\n", second, progress.sent,
               progress.over, of_those_over(progress.summary.slo.ttft, progress.summary.requests) * 100.0,
               progress.summary.slo.itl * 100.0, meters.power_w, energy / 1e3,
               reference > 0.0 ? (1.0 - energy / reference) * 100.0 : 0.0, fmt::join(meters.clocks_mhz, " "));
    std::fflush(stdout);
  };
  const auto report = live::replay(rows, replay, show);
  if (!report) return std::unexpected(report.error());
  const double seconds = (live::steady_now() - begin).seconds();
  tally.look();
  const double energy = tally.energy_j();
  const Child* child = house.dead();
  const std::string dead = child == nullptr ? "" : child->name();

  const auto& live_run = report->summary;
  // A run cut short by Ctrl-C is compared with as much of the simulated ones.
  const auto until_now = [&](const Simulated& s) {
    if (s.energy_j.empty()) return 0.0;
    return drain_wanted ? s.energy_j[std::min(static_cast<std::size_t>(seconds), s.energy_j.size() - 1)]
                        : s.summary.energy.total.value();
  };
  const double reference = until_now(*baseline);
  if (!flags.out.empty()) {
    house.end();
    if (auto told = tell_clients_view(flags.out, live_run, report->curves); !told) return std::unexpected(told.error());
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
    out["mean_gpus"] = tally.mean_gpus();
    out["mean_power_w"] = energy / seconds;
    const auto slo = [](const journal::Attainment& a) {
      return nlohmann::ordered_json{
          {"ttft_attainment", a.ttft}, {"itl_attainment", a.itl}, {"tbt_attainment", a.tbt}, {"e2e_attainment", a.e2e}};
    };
    out["slo"] = slo(live_run.slo);
    out["simulated"] = {{"static_max_energy_j", reference}, {"same_recipe_energy_j", until_now(*forecast)}};
    out["simulated"].update(slo(forecast->summary.slo));
    out["saved"] = reference > 0.0 ? 1.0 - energy / reference : 0.0;
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("\n{} requests in {:.0f} s: {} finished, {} failed or rejected\n", live_run.requests.arrived, seconds,
               live_run.requests.finished, live_run.requests.arrived - live_run.requests.finished);
    fmt::print("{:<34} {:>9} {:>7} {:>7}\n", "", "energy", "TTFT", "ITL");
    const auto row = [](const std::string& name, double energy_j, double ttft, double itl) {
      fmt::print("{:<34} {:>6.1f} kJ {:>6.1f}% {:>6.1f}%\n", name, energy_j / 1e3, ttft * 100.0, itl * 100.0);
    };
    row(flags.recipe + ", live", energy, live_run.slo.ttft, live_run.slo.itl);
    row(flags.recipe + ", simulated", until_now(*forecast), forecast->summary.slo.ttft, forecast->summary.slo.itl);
    row("static-max, simulated", reference, baseline->summary.slo.ttft, baseline->summary.slo.itl);
    fmt::print("saved against static-max: {:.1f} %\n", reference > 0.0 ? (1.0 - energy / reference) * 100.0 : 0.0);
    if (report->latest_start > Span::ms(20)) {
      fmt::print("note: requests went out up to {:.0f} ms late; this machine was the bottleneck\n",
                 report->latest_start.millis());
    }
  }
  if (!dead.empty()) return external_failure(dead, "died during the run");
  return live_run.requests.finished == live_run.requests.arrived ? 0 : 1;
}

}  // namespace

void add_up(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<UpFlags>();
  auto* command =
      app.add_subcommand("up", "gateway, agent and an emulated fleet in real time, with a trace replayed against them");
  command->add_option("--config", flags->config, "name or file of a scenario")->capture_default_str();
  command->add_option("--recipe", flags->recipe, "name or file of a recipe")->capture_default_str();
  command->add_option("--for", flags->duration, "how long, such as 60s or 5m; default: to the trace's end or Ctrl-C");
  command->add_option("--set", flags->set, "key=value: any scenario or recipe key by its dotted path");
  command->add_option(
      "--out", flags->out,
      "run directory for `wattle report`: decisions, requests with their energy, power and clocks over time");
  command->add_option("--pd-contract", flags->contract, "between prefill and decode engines")
      ->check(CLI::IsMember({"nixl", "sglang"}))
      ->capture_default_str();
  command->add_option("--port", flags->port, "of the gateway on 127.0.0.1; 0 takes a free one")->capture_default_str();
  command->add_option("--admin-port", flags->admin_port, "of its admin plane")->capture_default_str();
  command->add_flag("--json", flags->json, "no table; one JSON object at the end");
  command->callback([flags, &exit_code] {
    const auto result = up(*flags);
    exit_code = result ? *result : fail(result.error());
  });
}

}  // namespace wattle::apps
