// `wattle up`: the whole house on one machine. Real processes (mock engines, agent, gateway) speak their real protocols
// over loopback; only the GPUs are virtual. A trace is replayed against the gateway in real time.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "admin_call.h"
#include "base/file.h"
#include "child.h"
#include "commands.h"
#include "compose.h"
#include "engine_flags.h"
#include "fake_nvml/virtual_gpu.h"
#include "journal/run_directory.h"
#include "live/clock.h"
#include "live/gpu/nvml.h"
#include "live/replay/replay.h"
#include "locate.h"
#include "saturation.h"
#include "simulate.h"

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

struct Engine {
  std::string url;
  std::string fpm;
  Role role = Role::Colocated;
  std::vector<std::string> gpus;
};

const char* role_name(Role role) {
  return role == Role::Prefill ? "prefill" : role == Role::Decode ? "decode" : "colocated";
}

std::string number(double value) { return fmt::format("{}", value); }

/// Whether GET /health at "http://127.0.0.1:PORT" says 200: the gateway knows a live engine of each role.
bool healthy(const std::string& url) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(url.substr(url.rfind(':') + 1).c_str())));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::array<char, 16> answer{};
  constexpr std::string_view kRequest = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  const bool answered = fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                        send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) > 0 &&
                        recv(fd, answer.data(), answer.size() - 1, MSG_WAITALL) > 0;
  if (fd >= 0) close(fd);
  return answered && std::string_view(answer.data()).starts_with("HTTP/1.1 200");
}

/// The fleet, its processes and their files; ends and removes them when it goes.
class House {
 public:
  explicit House(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~House() {
    end();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  House(const House&) = delete;
  House& operator=(const House&) = delete;

  /// Front to back: no new requests, then nobody to change clocks, then the engines.
  void end() {
    while (!children_.empty()) {
      children_.back().stop(Span::s(5));
      children_.pop_back();
    }
  }
  /// `scales`: engines come and go under a planner, each in its own place.
  Result<void> build(const config::LoadedScenario& loaded, const std::vector<config::Override>& recipe_overrides,
                     const UpFlags& flags, bool scales);
  /// Which of engines() run now; all of them in a house without a planner.
  [[nodiscard]] std::vector<bool> running();
  [[nodiscard]] const std::string& gateway_url() const { return gateway_url_; }
  [[nodiscard]] const std::string& admin_url() const { return admin_url_; }
  [[nodiscard]] const std::vector<Engine>& engines() const { return engines_; }
  [[nodiscard]] const Child* dead() {
    for (auto& child : children_) {
      if (!child.running()) return &child;
    }
    return nullptr;
  }

 private:
  Result<std::string> launch(const std::string& name, const std::vector<std::string>& arguments) {
    auto child = Child::start(name, arguments, (folder_ / (name + ".log")).string());
    if (!child) return std::unexpected(child.error());
    children_.push_back(std::move(*child));
    return children_.back().first_line(Span::s(20));
  }

  std::filesystem::path folder_;
  std::vector<Child> children_;
  std::vector<Engine> engines_;
  std::string gateway_url_;
  std::string admin_url_;
  std::string planner_url_;  ///< empty: no planner
  std::unique_ptr<AdminCaller> caller_;
};

std::vector<bool> House::running() {
  std::vector<bool> result(engines_.size(), planner_url_.empty());
  if (planner_url_.empty()) return result;
  const auto answer = caller_->call(planner_url_, "GET", "/fleet");
  const auto fleet = answer ? nlohmann::json::parse(answer->body, nullptr, false) : nlohmann::json();
  if (!fleet.is_object()) return result;
  for (const auto& engine : fleet.value("engines", nlohmann::json::array())) {
    for (std::size_t i = 0; i < engines_.size(); ++i) {
      if (engine.value("gpus", std::vector<std::string>{}) == engines_[i].gpus) result[i] = true;
    }
  }
  return result;
}

/// A port of ours nobody listens at just now: whoever is started there later finds it free, as good as always.
Result<std::string> free_endpoint() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound = fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0) close(fd);
  if (!bound) return external_failure("127.0.0.1", "no free port for an engine's metrics");
  return fmt::format("tcp://127.0.0.1:{}", ntohs(address.sin_port));
}

Result<void> House::build(const config::LoadedScenario& loaded, const std::vector<config::Override>& recipe_overrides,
                          const UpFlags& flags, bool scales) {
  const auto& scenario = loaded.scenario;
  std::filesystem::create_directories(folder_);
  std::int32_t gpus = 0;
  // Where a planner starts engines, each shape has at least one place.
  const auto places = [scales](const config::PoolOptions& pool) {
    return scales ? std::max(pool.count, 1) : pool.count;
  };
  for (const auto& pool : scenario.pools) gpus += places(pool) * pool.tensor_parallel;
  const auto& gpu = loaded.gpus.front();
  for (const auto& other : loaded.gpus) {
    if (other.name != gpu.name) {
      return bad_input(scenario.file, "wattle up emulates one kind of GPU; this fleet has " + gpu.name + " and " +
                                          other.name + " (wattle sim runs it)");
    }
  }
  if (gpus > fake::kMaxGpus) {
    return bad_input(scenario.file, fmt::format("wattle up emulates at most {} GPUs; this fleet has {} (wattle sim "
                                                "runs it)",
                                                fake::kMaxGpus, gpus));
  }
  // Children find the virtual GPUs through this variable, as they would find real ones through the driver.
  const auto board = fmt::format(
      "{},count={},name={},clock_min={},clock_max={},power_limit_w={:.0f},call_ms={},transition_ms={}",
      (folder_ / "gpus").string(), gpus, gpu.name, gpu.clock_min.value(), gpu.clock_max.value(), gpu.tdp.value(),
      scenario.clock_delays.call.ns() / 1'000'000, scenario.clock_delays.transition.ns() / 1'000'000);
  setenv(fake::kBoardVariable, board.c_str(), 1);

  const auto engine = engine_arguments(scenario.engine);
  std::int32_t next_gpu = 0;
  std::vector<std::string> slots;
  for (std::size_t p = 0; p < scenario.pools.size(); ++p) {
    const auto& pool = scenario.pools[p];
    for (std::int32_t i = 0; i < places(pool); ++i) {
      Engine made;
      made.role = pool.role;
      for (std::int32_t g = 0; g < pool.tensor_parallel; ++g) made.gpus.push_back(std::to_string(next_gpu++));
      if (scales) {
        auto endpoint = free_endpoint();
        if (!endpoint) return std::unexpected(endpoint.error());
        made.fpm = *endpoint;
        slots.insert(slots.end(), {"--slot", fmt::format("{}={}@{}", p, fmt::join(made.gpus, ","), made.fpm)});
        engines_.push_back(std::move(made));
        continue;
      }
      const auto name = fmt::format("{}-{}", role_name(pool.role), engines_.size());
      std::vector<std::string> mock{"mock-engine",
                                    "--json",
                                    "--gpu",
                                    pool.gpu,
                                    "--llm",
                                    scenario.llm,
                                    "--role",
                                    role_name(pool.role),
                                    "--tp",
                                    std::to_string(pool.tensor_parallel),
                                    "--gpus",
                                    fmt::format("{}", fmt::join(made.gpus, ",")),
                                    "--id",
                                    name,
                                    "--link-bytes-per-s",
                                    number(scenario.link.bandwidth_bytes_per_s),
                                    "--link-latency-ms",
                                    number(scenario.link.latency.millis())};
      mock.insert(mock.end(), engine.begin(), engine.end());
      const auto line = launch(name, mock);
      if (!line) return std::unexpected(line.error());
      const auto json = nlohmann::json::parse(*line, nullptr, false);
      if (json.is_discarded()) return external_failure(name, "said '" + *line + "' instead of where it listens");
      made.url = json.value("url", "");
      made.fpm = json.value("fpm", "");
      engines_.push_back(std::move(made));
    }
  }

  std::vector<std::string> fleet{"--recipe", flags.recipe, "--gpu", scenario.pools.front().gpu, "--llm", scenario.llm};
  fleet.insert(fleet.end(), engine.begin(), engine.end());
  for (const auto& override : recipe_overrides) {
    fleet.insert(fleet.end(), {"--set", fmt::format("{}={}", override.key, override.text)});
  }
  std::vector<std::string> agent{
      "agent", "--json", "--nvml", WATTLE_FAKE_NVML_LIBRARY, "--state", (folder_ / "agent-locks").string()};
  std::vector<std::string> gateway{"gateway",
                                   "--json",
                                   "--pd-contract",
                                   flags.contract,
                                   "--listen",
                                   fmt::format("127.0.0.1:{}", flags.port),
                                   "--admin",
                                   fmt::format("127.0.0.1:{}", flags.admin_port),
                                   "--model",
                                   scenario.llm,
                                   "--threads",
                                   "2",
                                   "--default-max-tokens",
                                   std::to_string(scenario.workload.max_output_tokens),
                                   "--seed",
                                   std::to_string(scenario.seed)};
  agent.insert(agent.end(), fleet.begin(), fleet.end());
  gateway.insert(gateway.end(), fleet.begin(), fleet.end());
  if (scenario.slo.ttft) {
    agent.insert(agent.end(), {"--ttft-ms", number(scenario.slo.ttft->millis())});
    gateway.insert(gateway.end(), {"--ttft-slo-ms", number(scenario.slo.ttft->millis())});
  }
  if (scenario.slo.itl) {
    agent.insert(agent.end(), {"--itl-ms", number(scenario.slo.itl->millis())});
    gateway.insert(gateway.end(), {"--itl-slo-ms", number(scenario.slo.itl->millis())});
  }
  if (scenario.slo.tbt) gateway.insert(gateway.end(), {"--tbt-slo-ms", number(scenario.slo.tbt->millis())});
  if (scenario.slo.e2e) gateway.insert(gateway.end(), {"--e2e-slo-ms", number(scenario.slo.e2e->millis())});
  for (const auto& made : engines_) {
    agent.insert(agent.end(),
                 {"--engine", fmt::format("{}={}@{}", made.fpm, fmt::join(made.gpus, ","), role_name(made.role))});
    if (scales) continue;  // the planner tells the gateway of its engines
    gateway.insert(gateway.end(),
                   {"--worker", fmt::format("{}={},fpm={},tp={},bootstrap={}", made.url, role_name(made.role), made.fpm,
                                            made.gpus.size(), made.url.substr(made.url.rfind(':') + 1))});
  }
  const auto agent_line = launch("agent", agent);
  if (!agent_line) return std::unexpected(agent_line.error());
  const auto agent_json = nlohmann::json::parse(*agent_line, nullptr, false);
  if (agent_json.is_discarded()) {
    return external_failure("agent", "said '" + *agent_line + "' instead of where it listens");
  }
  gateway.insert(gateway.end(), {"--agent", agent_json.value("admin", ""), "--name", scenario.name,
                                 "--carbon-g-per-kwh", number(scenario.carbon_intensity.value())});
  if (!flags.out.empty()) gateway.insert(gateway.end(), {"--journal", std::filesystem::absolute(flags.out).string()});
  const auto line = launch("gateway", gateway);
  if (!line) return std::unexpected(line.error());
  const auto json = nlohmann::json::parse(*line, nullptr, false);
  if (json.is_discarded()) return external_failure("gateway", "said '" + *line + "' instead of where it listens");
  gateway_url_ = json.value("url", "");
  admin_url_ = json.value("admin", "");
  if (scales) {
    std::vector<std::string> planner{"planner",   flags.config, "--json", "--recipe",      flags.recipe,
                                     "--gateway", admin_url_,   "--logs", folder_.string()};
    planner.insert(planner.end(), slots.begin(), slots.end());
    for (const auto& text : flags.set) planner.insert(planner.end(), {"--set", text});
    const auto planner_line = launch("planner", planner);
    if (!planner_line) return std::unexpected(planner_line.error());
    const auto planner_json = nlohmann::json::parse(*planner_line, nullptr, false);
    if (planner_json.is_discarded()) {
      return external_failure("planner", "said '" + *planner_line + "' instead of where it listens");
    }
    planner_url_ = planner_json.value("admin", "");
    caller_ = std::make_unique<AdminCaller>();
  }
  for (int tries = 0; !healthy(gateway_url_); ++tries) {
    if (tries == 100) return external_failure("gateway", "found no live engine of each role within 10 s");
    usleep(100'000);
  }
  return {};
}

/// What the virtual GPUs' own counters say.
struct Meters {
  double power_w = 0.0;  ///< of those whose engine runs
  std::vector<double> energy_j;
  std::vector<Milliwatts> powers;
  std::vector<std::int32_t> clocks_mhz;
};

/// Sums up what the GPUs of running engines drew; of the others nothing is ours.
class Tally {
 public:
  Tally(const std::vector<live::Gpu>& gpus, House& house) : gpus_(gpus), house_(house), begin_(live::steady_now()) {
    last_at_ = begin_;
    look();
    energy_j_ = gpu_seconds_ = 0.0;
  }
  const Meters& look() {
    const auto before = std::exchange(running_, house_.running());
    const auto last = std::exchange(meters_, {}).energy_j;
    const Instant now = live::steady_now();
    const double seconds = (now - last_at_).seconds();
    last_at_ = now;
    std::size_t g = 0;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      // One that came or went since the last look is counted for all of that time.
      const bool ours = running_[i] || (i < before.size() && before[i]);
      for (std::size_t k = 0; k < house_.engines()[i].gpus.size() && g < gpus_.size(); ++k, ++g) {
        meters_.energy_j.push_back(static_cast<double>(gpus_[g].energy_counter_mj().value) * 1e-3);
        meters_.powers.push_back(gpus_[g].power().value);
        meters_.clocks_mhz.push_back(running_[i] ? gpus_[g].sm_clock().value.value() : 0);
        if (running_[i]) meters_.power_w += to_watts(meters_.powers.back()).value();
        if (!ours || g >= last.size()) continue;
        energy_j_ += meters_.energy_j[g] - last[g];
        gpu_seconds_ += seconds;
      }
    }
    return meters_;
  }
  [[nodiscard]] double energy_j() const { return energy_j_; }
  [[nodiscard]] double mean_gpus() const {
    const double seconds = (last_at_ - begin_).seconds();
    return seconds > 0.0 ? gpu_seconds_ / seconds : 0.0;
  }

 private:
  const std::vector<live::Gpu>& gpus_;
  House& house_;
  Instant begin_;
  Instant last_at_;
  std::vector<bool> running_;
  Meters meters_;
  double energy_j_ = 0.0;
  double gpu_seconds_ = 0.0;
};

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
  if (auto built = house.build(*loaded, overrides->recipe, flags, scales); !built)
    return std::unexpected(built.error());

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
