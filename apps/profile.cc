// `wattle profile`: measures a live engine's step time and power over a grid; `wattle fit` makes a belief of it.
#include <fmt/core.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "calibrate/live/loads.h"
#include "calibrate/live/profiler.h"
#include "commands.h"
#include "config/load.h"
#include "config/locate.h"
#include "config/service.h"
#include "end_signals.h"
#include "experiment/load_profile.h"

namespace wattle::apps {
namespace {

struct ProfileFlags {
  calibrate::ProfileOptions options;
  std::string form = "ids";
  std::string grid = "product";
  std::vector<std::int32_t> clocks;
  std::vector<std::int32_t> concurrency = {1, 8, 16, 32, 64, 128};
  std::vector<std::int32_t> prompts = {64, 512};
  std::vector<std::int32_t> outputs = {128};
  std::vector<std::int32_t> prefill_prompts = {64, 128, 256, 512, 1024, 2048, 4096};
  std::vector<std::int32_t> contexts = {4096, 16384};
  std::size_t limit = 0;
  std::int32_t clock_mhz = 0;
  double rate_s = 5.0;
  double window_s = 1.0;
  double settle_ms = 200.0;
  std::int64_t kv_tokens = 0;
  std::string note;
  std::string out = "profile.csv";
  std::string simulated;  ///< a scenario: measures the loads of its simulated engines instead of a live engine's steps
  std::string loads;      ///< a scenario: measures the loads of its classes on the live engine
  std::string merge;      ///< a table of other TP degrees
  int tp = 0;
  double load_s = 30.0;
  std::vector<double> shares = {0.25, 0.5, 0.75, 1.0};
  double tolerance = 1.05;
  int bends = 2;
  std::string repository;  ///< of load profiles
  bool again = false;
  bool json = false;
};

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Ascending.
Result<std::vector<MegaHertz>> clocks_of(const ProfileFlags& flags) {
  std::vector<MegaHertz> clocks;
  for (const std::int32_t mhz : flags.clocks) clocks.emplace_back(mhz);
  std::ranges::sort(clocks);
  if (std::ranges::adjacent_find(clocks) != clocks.end()) {
    return bad_input("--clocks", "names a clock twice; name each once");
  }
  return clocks;
}

loadgen::PromptForm form_of(const ProfileFlags& flags) {
  return flags.form == "chat"   ? loadgen::PromptForm::Chat
         : flags.form == "text" ? loadgen::PromptForm::Text
                                : loadgen::PromptForm::TokenIds;
}

std::uint64_t serial_of_now() {
  return static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
}

Result<calibrate::Grid> grid_of(const ProfileFlags& flags) {
  calibrate::Grid grid = flags.grid == "voltanallm" ? calibrate::voltanallm_grid()
                         : flags.grid == "throttllem"
                             ? calibrate::throttllem_grid(flags.concurrency, flags.kv_tokens)
                             : calibrate::product_grid(flags.concurrency, flags.prompts, flags.outputs,
                                                       flags.prefill_prompts, flags.contexts);
  if (!flags.clocks.empty()) {
    auto clocks = clocks_of(flags);
    if (!clocks) return std::unexpected(clocks.error());
    grid.clocks = std::move(*clocks);
  } else if (flags.options.gpus.empty()) {
    grid.clocks.clear();  // a named grid's clocks need GPUs to set them on
  }
  calibrate::thin(grid, flags.limit);
  return grid;
}

/// A stream is a socket, and shells allow 1,024 of them although the system has more to give.
void allow_many_sockets() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Result<int> write_table(const ProfileFlags& flags, const plan::LoadTable& table) {
  if (auto ok = write_file(flags.out, plan::to_text(table)); !ok) return std::unexpected(ok.error());
  std::size_t points = 0;
  for (const auto& one : table.classes) {
    for (const auto& p : one.profiles) points += p.points.size();
  }
  if (flags.json) {
    fmt::print(
        "{}\n",
        nlohmann::ordered_json{{"file", flags.out}, {"classes", table.classes.size()}, {"loads", points}}.dump());
  } else {
    fmt::print("{}: {} classes, {} loads\n", flags.out, table.classes.size(), points);
  }
  return 0;
}

/// DynamoLLM's profile of a scenario's engines, by class, TP degree, clock and load.
Result<int> profile_loads(const ProfileFlags& flags) {
  const auto scenario = config::load_scenario(flags.simulated, {}, config::project());
  if (!scenario) return std::unexpected(scenario.error());
  experiment::LoadProfileRequest request;
  request.repository = flags.repository;
  request.again = flags.again;
  request.progress = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const auto table = experiment::scenario_profile(*scenario, {}, config::data_dir(), request);
  if (!table) return std::unexpected(table.error());
  return write_table(flags, **table);
}

/// Likewise of a live engine of one TP degree.
Result<int> profile_live_loads(const ProfileFlags& flags) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("profile"));  // stdout is for results
  if (flags.note.find_first_of("\r\n") != std::string::npos) return bad_input("--note", "is one line");
  const auto scenario = config::load_scenario(flags.loads, {}, config::project());
  if (!scenario) return std::unexpected(scenario.error());
  const auto classes = experiment::scenario_requests(*scenario, {}, config::data_dir());
  if (!classes) return std::unexpected(classes.error());
  calibrate::LiveLoadOptions options;
  options.url = flags.options.url;
  options.model = flags.options.model;
  options.form = form_of(flags);
  options.serial = serial_of_now();
  options.gpus = flags.options.gpus;
  options.keeper = flags.options.keeper;
  options.tp = flags.tp;
  options.load_time = Span::from_seconds(flags.load_s);
  options.settle = Span::from_seconds(flags.settle_ms * 1e-3);
  auto clocks = clocks_of(flags);
  if (!clocks) return std::unexpected(clocks.error());
  if (clocks->empty()) clocks = calibrate::clocks_to_profile(scenario->gpus.front());
  options.search.clocks = std::move(*clocks);
  options.search.shares = flags.shares;
  std::ranges::sort(options.search.shares);
  options.search.halvings = flags.bends;
  options.search.tolerance = flags.tolerance;
  options.search.stride = std::max(2.0, flags.tolerance);
  options.search.beyond = std::max(options.search.beyond, flags.tolerance);
  plan::LoadTable head;  // describes the measurement
  head.llm = scenario->llm.name;
  head.gpu = scenario->gpus.front().name;
  head.tiers = config::make_service(scenario->scenario, {}).classes.tiers();
  const int tp = flags.tp != 0 ? flags.tp : static_cast<int>(options.gpus.size());
  for (const auto& of : *classes) {
    head.classes.push_back(calibrate::head_of(of));
    head.classes.back().profiles.push_back({tp, {}, {}});
  }
  std::optional<plan::LoadTable> more;
  if (!flags.merge.empty()) {
    const auto text = read_file(flags.merge);
    if (!text) return std::unexpected(text.error());
    auto read = plan::parse_load_table(*text, flags.merge);
    if (!read) return std::unexpected(read.error());
    if (auto ok = plan::check_mergeable(head, *read, flags.merge); !ok) return std::unexpected(ok.error());
    more = std::move(*read);
  }
  if (!flags.repository.empty() && !options.gpus.empty()) {
    plan::LoadTable all = head;
    for (std::size_t c = 0; more && c < all.classes.size(); ++c) {
      for (const auto& profile : more->classes[c].profiles) all.classes[c].profiles.push_back(profile);
    }
    if (auto ok = experiment::check_tps(*scenario, all); !ok) return std::unexpected(ok.error());
  }
  allow_many_sockets();
  handle_end_signals();
  auto made = calibrate::profile_live_loads(*classes, options, end_wanted(),
                                            [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  if (!made) return std::unexpected(made.error());
  for (const auto& uuid : made->stuck) {
    fmt::print(stderr, "{} did not let go of its clock in time; left to the guardian\n", uuid);
  }
  plan::LoadTable& table = made->table;
  table.llm = head.llm;
  table.gpu = head.gpu;
  table.tiers = head.tiers;
  table.provenance.push_back("requests: of " + scenario->scenario.name);
  table.provenance.push_back("date: " + utc_now());
  if (!flags.note.empty()) table.provenance.push_back("note: " + flags.note);
  // The measurement is written even if merging or publishing fails.
  const auto merged = more ? plan::merge(table, *more, flags.merge) : Result<void>();
  auto written = write_table(flags, table);
  if (!written) return written;
  if (!merged) return std::unexpected(merged.error());
  if (!flags.repository.empty()) {
    experiment::LoadProfileRequest request;
    request.repository = flags.repository;
    const auto version = experiment::publish_profile(*scenario, *classes, request, table);
    if (!version) return std::unexpected(version.error());
  }
  return made->stuck.empty() ? 0 : 3;
}

Result<int> profile(ProfileFlags flags) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("profile"));  // stdout is for results
  if (flags.note.find_first_of("\r\n") != std::string::npos) return bad_input("--note", "is one line");
  if (flags.grid == "throttllem") {
    if (flags.kv_tokens == 0) {
      const auto reported = calibrate::kv_capacity_tokens(flags.options.url);
      if (!reported) return std::unexpected(reported.error());
      flags.kv_tokens = *reported;
    }
    if (flags.options.gpus.empty()) return bad_input("--grid throttllem", "draws clocks; name the GPUs with --gpu");
  }
  auto grid = grid_of(flags);
  if (!grid) return std::unexpected(grid.error());
  if (grid->cells.empty()) return bad_input("--concurrency", "no batch of these sizes fills the cache");
  auto& options = flags.options;
  options.grid = std::move(*grid);
  options.form = form_of(flags);
  options.serial = serial_of_now();
  options.stated_clock = MegaHertz(flags.clock_mhz);
  options.rate_time = Span::from_seconds(flags.rate_s);
  options.window = Span::from_seconds(flags.window_s);
  options.settle = Span::from_seconds(flags.settle_ms * 1e-3);
  allow_many_sockets();
  handle_end_signals();
  auto outcome = calibrate::profile_engine(options, end_wanted(),
                                           [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  if (!outcome) return std::unexpected(outcome.error());
  for (const auto& note : outcome->notes) fmt::print(stderr, "note: {}\n", note);
  for (const auto& uuid : outcome->stuck) {
    fmt::print(stderr, "{} did not let go of its clock in time; left to the guardian\n", uuid);
  }
  auto& lines = outcome->profile.provenance;
  lines.insert(lines.begin(), {"made by: wattle profile", "date: " + utc_now()});
  if (!flags.note.empty()) lines.push_back("note: " + flags.note);
  const auto measured =
      std::ranges::count_if(outcome->profile.rows, [](const auto& r) { return r.phase != predict::StepKind::Idle; });
  if (measured == 0) outcome->profile.rows.clear();  // idle power alone is no profile of an engine's steps
  const std::size_t rows = outcome->profile.rows.size();
  const auto powered = std::ranges::count_if(outcome->profile.rows, [](const auto& r) { return r.power.has_value(); });
  if (rows > 0) {
    if (auto ok = write_file(flags.out, predict::to_csv(outcome->profile)); !ok) return std::unexpected(ok.error());
  }
  if (flags.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"file", rows > 0 ? flags.out : ""},
                                              {"rows", rows},
                                              {"rows_with_power", powered},
                                              {"notes", outcome->notes},
                                              {"interrupted", outcome->interrupted}}
                           .dump());
  } else if (rows > 0) {
    fmt::print("{}: {} rows, {} with power{}\n", flags.out, rows, powered, outcome->interrupted ? ", cut short" : "");
  }
  if (!outcome->stuck.empty()) return 3;
  if (rows == 0 && !outcome->interrupted) {
    return std::unexpected(
        Error{ErrorKind::Failed, flags.options.url, "no cell gave a measurement; nothing is written"});
  }
  return outcome->interrupted ? 1 : 0;
}

void add_loads(Command command, ProfileFlags& flags) {
  command.add_option("--loads", flags.loads,
                     "Instead of steps: a scenario whose classes are profiled on this engine by clock and load "
                     "(DynamoLLM); needs --gpu");
  command.add_option("--tp", flags.tp, "loads: the engine's TP degree; default: as many as --gpu names")
      .check(range(1, 64));
  command.add_option("--load-s", flags.load_s, "loads: duration of each load, s")
      .check(range(2.0, 3600.0))
      .capture_default_str();
  command
      .add_option("--shares", flags.shares,
                  "loads: which ones are measured, as shares of the highest within the objectives")
      .delimiter(',')
      .check(range(0.01, 1.0))
      .capture_default_str();
  command
      .add_option("--tolerance", flags.tolerance,
                  "loads: precision of the search for the highest load within the objectives, as a factor")
      .check(range(1.01, 2.0))
      .capture_default_str();
  command
      .add_option("--bends", flags.bends,
                  "loads: number of times that the interval between two loads is halved where power bends")
      .check(range(0, 8))
      .capture_default_str();
  command.add_option("--merge", flags.merge, "loads: a table of other TP degrees to merge into this one");
}

}  // namespace

void add_profile(Command app, int& exit_code) {
  Command command = app.add_subcommand("profile", "Measure a live engine's step time and power over a grid");
  auto flags = std::make_shared<ProfileFlags>();
  flags->options.keeper.state_file = "/var/lib/wattle/agent-locks";
  const auto list = [&](const char* name, std::vector<std::int32_t>& into, const char* text) {
    command.add_option(name, into, text).delimiter(',').check(positive()).capture_default_str();
  };
  command.add_option("--url", flags->options.url, "The engine, like http://127.0.0.1:8000");
  command.add_option("--model", flags->options.model, "The model to ask for; default: the first it serves");
  command
      .add_option("--grid", flags->grid,
                  "product: all combinations of the lists below; voltanallm: that paper's grid; throttllem: that "
                  "paper's procedure, batches of --concurrency that fill the cache, at a random clock for each "
                  "measurement")
      .check(one_of({"product", "voltanallm", "throttllem"}))
      .capture_default_str();
  command.add_option("--simulated", flags->simulated,
                     "Instead of a live engine: a scenario whose simulated engines are profiled by class, TP degree, "
                     "clock and load (DynamoLLM)");
  command.add_option("--repository", flags->repository,
                     "simulated: shared directory in which such profiles are looked up and published; loads: "
                     "directory in which the profile is published; the scenario's planners use it from then on");
  command.add_flag("--again", flags->again,
                   "simulated: measure even if a profile exists; the result becomes the next version");
  add_loads(command, *flags);
  list("--concurrency", flags->concurrency, "decode: streams at once");
  list("--prompt", flags->prompts, "decode: prompt lengths, tokens");
  list("--output-tokens", flags->outputs, "decode: output lengths, tokens; long enough for a second of steps");
  list("--prefill", flags->prefill_prompts, "prefill: prompt lengths, tokens");
  command
      .add_option(
          "--context", flags->contexts,
          "prefill: contexts in the engine's prefix cache behind which prompts up to half as long are measured, "
          "too, tokens; 0: none")
      .delimiter(',')
      .check(range(0, 10'000'000))
      .capture_default_str();
  list("--clocks", flags->clocks, "Clocks to lock, MHz; default: the grid's own, or none");
  command.add_option("--limit", flags->limit, "At most this many decode and this many prefill cells per clock; 0: all");
  command.add_option("--rate-s", flags->rate_s, "Time spent on each request rate of a grid that has rates, s")
      .check(positive_time())
      .capture_default_str();
  command
      .add_option("--kv-tokens", flags->kv_tokens,
                  "throttllem: capacity of the engine's KV cache, tokens; default: from its /metrics (vLLM)")
      .check(positive());
  command.add_option("--window-s", flags->window_s, "throttllem: length of one measurement, s")
      .check(range(0.01, 3600.0))
      .capture_default_str();
  command.add_option("--settle-ms", flags->settle_ms, "Time from locking a clock to the first step that counts")
      .check(range(0.0, 60'000.0))
      .capture_default_str();
  command
      .add_option("--gpu", flags->options.gpus,
                  "The engine's GPUs, by index or UUID: needed to measure power and set clocks")
      .delimiter(',');
  command.add_option("--clock-mhz", flags->clock_mhz, "Without --gpu: the clock at which the engine runs")
      .check(range(predict::kLowestClockMhz, predict::kHighestClockMhz));
  command.add_option("--telemetry", flags->options.telemetry,
                     "ZeroMQ endpoint of the engine's forward-pass metrics: steps from there, not from the streams");
  command.add_option("--nvml", flags->options.keeper.library, "The NVML library").capture_default_str();
  command.add_option("--state", flags->options.keeper.state_file, "File that records which GPUs are locked")
      .capture_default_str();
  command.add_option("--prompt-form", flags->form, "chat, text, or ids (token ids: exact lengths on any tokenizer)")
      .check(one_of({"chat", "text", "ids"}))
      .capture_default_str();
  command.add_option("--note", flags->note, "One line of provenance: a description of the engine");
  command.add_option("-o,--out", flags->out, "The file to write").capture_default_str();
  command.add_flag("--json", flags->json, "Print a summary as one JSON object");
  command.callback([flags, &exit_code] {
    if (flags->simulated.empty() == flags->options.url.empty()) {
      exit_code = fail({ErrorKind::BadInput, "--url", "name a live engine here, or a scenario with --simulated"});
      return;
    }
    if (!flags->loads.empty() && flags->options.url.empty()) {
      exit_code = fail({ErrorKind::BadInput, "--loads", "needs a live engine: name it with --url"});
      return;
    }
    if (auto ok = check_writable(flags->out); !ok) {
      exit_code = fail(ok.error());
      return;
    }
    const auto done = !flags->simulated.empty() ? profile_loads(*flags)
                      : !flags->loads.empty()   ? profile_live_loads(*flags)
                                                : profile(*flags);
    exit_code = done ? *done : fail(done.error());
  });
}

}  // namespace wattle::apps
