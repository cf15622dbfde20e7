// `wattle mock-engine`: an OpenAI-compatible engine with a virtual GPU, in real time.
#include <fmt/core.h>
#include <sys/prctl.h>

#include <csignal>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "commands.h"
#include "config/load.h"
#include "config/locate.h"
#include "config/make_step_model.h"
#include "end_signals.h"
#include "engine_flags.h"
#include "journal/names.h"
#include "net/clock.h"
#include "net/server.h"
#include "testbed/mock_engine_api.h"
#include "testbed/transcript.h"

namespace wattle::apps {
namespace {

struct MockEngineFlags {
  std::string listen = "127.0.0.1:0";
  std::string gpu = "a100-80g";
  std::string llm = "llama-3.1-8b";
  std::string model;
  std::string role = "colocated";
  std::string fpm = "tcp://127.0.0.1:*";
  std::string id = "mock-0";
  std::string step_reports = "ended";
  std::string dialect = "vllm";
  std::string transcript;
  double keep_alive_s = 5.0;
  std::vector<std::int32_t> gpus;
  std::int32_t tensor_parallel = 1;
  std::uint64_t seed = 1;
  engine::EngineOptions engine;
  engine::LinkOptions link;
  Span bootstrap_timeout = Span::s(300);
  Span load;
  bool json = false;
  bool with_parent = false;
};

/// The board of the environment, if it names one, checked against the flags.
Result<std::unique_ptr<virtual_gpu::Board>> open_board(const MockEngineFlags& flags) {
  if (std::getenv(virtual_gpu::kBoardVariable) == nullptr) return std::unique_ptr<virtual_gpu::Board>();
  auto board = virtual_gpu::Board::open_from_environment();
  if (!board) return std::unexpected(board.error());
  for (const std::int32_t gpu : flags.gpus) {
    if (gpu < 0 || gpu >= board->count()) {
      return bad_input("--gpus " + std::to_string(gpu), fmt::format("the board has GPUs 0 to {}", board->count() - 1));
    }
  }
  return std::make_unique<virtual_gpu::Board>(std::move(*board));
}

Result<int> serve(MockEngineFlags flags) {
  if (flags.gpus.empty()) {
    for (std::int32_t i = 0; i < flags.tensor_parallel; ++i) flags.gpus.push_back(i);
  }
  if (static_cast<std::int32_t>(flags.gpus.size()) != flags.tensor_parallel) {
    return bad_input("--gpus", fmt::format("must name as many GPUs as --tp ({})", flags.tensor_parallel));
  }
  const auto address = net::parse_host_port(flags.listen, "--listen");
  if (!address) return std::unexpected(address.error());
  const auto home = config::project();
  const auto gpu_file = home.find(config::Project::Kind::Gpu, flags.gpu, "--gpu");
  if (!gpu_file) return std::unexpected(gpu_file.error());
  const auto llm_file = home.find(config::Project::Kind::Llm, flags.llm, "--llm");
  if (!llm_file) return std::unexpected(llm_file.error());
  const auto gpu = config::load_gpu(*gpu_file);
  if (!gpu) return std::unexpected(gpu.error());
  const auto llm = config::load_llm(*llm_file);
  if (!llm) return std::unexpected(llm.error());
  const auto step_model = config::make_step_model(*gpu, *llm, flags.tensor_parallel, flags.engine);
  if (!step_model) return std::unexpected(step_model.error());
  auto board = open_board(flags);
  if (!board) return std::unexpected(board.error());
  std::unique_ptr<telemetry::FpmPublisher> publisher;
  if (flags.fpm != "off") {
    auto bound = telemetry::FpmPublisher::bind(flags.fpm, flags.id);
    if (!bound) return std::unexpected(bound.error());
    publisher = std::make_unique<telemetry::FpmPublisher>(std::move(*bound));
  }

  std::optional<testbed::Transcript> transcript;
  if (!flags.transcript.empty()) {
    const auto text = read_file(flags.transcript);
    if (!text) return std::unexpected(text.error());
    auto read = testbed::Transcript::read(*text, flags.transcript);
    if (!read) return std::unexpected(read.error());
    transcript = std::move(*read);
  }

  testbed::MockApiOptions options;
  options.model = flags.model.empty() ? flags.llm : flags.model;
  options.engine_id = flags.id;
  options.vocabulary = llm->vocab;
  options.dialect = flags.dialect == "llama.cpp" ? testbed::Dialect::LlamaCpp
                    : flags.dialect == "sglang"  ? testbed::Dialect::Sglang
                                                 : testbed::Dialect::Vllm;
  options.role = journal::role_from(flags.role).value();  // the flag is checked
  options.block_size = flags.engine.block_size;
  options.tensor_parallel = flags.tensor_parallel;
  options.seed = flags.seed;
  options.kv_bytes_per_token = llm->kv_bytes_per_token();
  options.link = flags.link;
  options.bootstrap_timeout = flags.bootstrap_timeout;
  options.loaded = net::steady_now() + flags.load;

  // Signals are waited for, not handled: blocked before the first thread, so that every thread inherits that.
  const sigset_t signals = block_end_signals();
  if (flags.with_parent) prctl(PR_SET_PDEATHSIG, SIGKILL);

  net::LoopPool pool(1);
  net::Loop& loop = pool.at(0);
  testbed::MockApi api(loop, options);
  const StepMoment reports = flags.step_reports == "start" ? StepMoment::Starts : StepMoment::Ended;
  testbed::RealTimeEngine engine(loop, *step_model, {options.role, flags.engine, flags.gpus, reports}, board->get(),
                                 flags.step_reports == "none" ? nullptr : publisher.get(), api);
  api.set_engine(&engine);
  net::ServerOptions where;
  where.host = address->host;
  where.port = address->port;
  where.idle_timeout = Span::from_seconds(flags.keep_alive_s);
  auto server = net::HttpServer::listen(pool, where, [&api, &transcript](std::shared_ptr<net::Exchange> e) {
    transcript ? transcript->answer(e) : api.handle(e);
  });
  if (!server) return std::unexpected(server.error());
  api.set_port((*server)->port());
  std::promise<void> started;
  loop.post([&] {
    engine.start();
    started.set_value();
  });
  started.get_future().wait();

  const std::string url = "http://" + net::HostPort{address->host, (*server)->port()}.text();
  const std::string endpoint = publisher ? publisher->endpoint() : "", on = publisher ? "on " + endpoint : "off";
  if (flags.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"url", url}, {"fpm", endpoint}, {"model", options.model}}.dump());
  } else {
    fmt::print("{} ({}) on {}\nforward-pass metrics {}\n", options.model, flags.gpu, url, on);
  }
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->stop(Span::ms(200));
  pool.stop();
  engine.leave();
  return 0;
}

}  // namespace

void add_mock_engine(Command app, int& exit_code) {
  Command command = app.add_subcommand("mock-engine", "An OpenAI-compatible engine with a virtual GPU, in real time");
  auto flags = std::make_shared<MockEngineFlags>();
  command.add_option("--listen", flags->listen, "host:port; port 0: any free one").capture_default_str();
  command.add_option("--gpu", flags->gpu, "The kind of GPU to emulate (specs/gpus)").capture_default_str();
  command.add_option("--llm", flags->llm, "The model to emulate (specs/llms)").capture_default_str();
  command.add_option("--model", flags->model, "Name of the model in the API; default: that of --llm");
  command
      .add_option("--role", flags->role, "colocated, prefill or decode (vLLM's NIXL contract and SGLang's bootstrap)")
      .check(one_of({"colocated", "prefill", "decode"}))
      .capture_default_str();
  command.add_option("--tp", flags->tensor_parallel, "Tensor parallelism").check(range(1, 16)).capture_default_str();
  command
      .add_option("--gpus", flags->gpus,
                  "Indices of its virtual GPUs on the board named by WATTLE_FAKE_NVML; default 0,1,…")
      .delimiter(',');
  command.add_option("--fpm", flags->fpm, "ZeroMQ endpoint for forward-pass metrics, or off").capture_default_str();
  command
      .add_option("--step-reports", flags->step_reports,
                  "ended: report a step when it has ended, like SGLang and vLLM; start: when it starts, like our "
                  "scheduler plugin; none: never, like llama.cpp, or vLLM without metrics")
      .check(one_of({"ended", "start", "none"}))
      .capture_default_str();
  command
      .add_option("--dialect", flags->dialect,
                  "The engine whose answers, errors, metrics and load reports it imitates: vllm, llama.cpp or "
                  "sglang")
      .check(one_of({"vllm", "llama.cpp", "sglang"}))
      .capture_default_str();
  command.add_option("--transcript", flags->transcript,
                     "File of recorded responses of a real engine, in sections \"## NAME\" as printed by curl -i, to "
                     "answer with: the one that matches the request, or that its X-Wattle-Transcript header names");
  command
      .add_option("--keep-alive-s", flags->keep_alive_s, "Close connections that have been idle for this long; vLLM: 5")
      .check(positive_time())
      .capture_default_str();
  command.add_option("--id", flags->id, "Worker and engine id").capture_default_str();
  command.add_option("--seed", flags->seed, "Seed of the output lengths of requests that state none")
      .capture_default_str();
  add_engine_flags(command, flags->engine);
  command
      .add_option("--link-bytes-per-s", flags->link.bandwidth_bytes_per_s,
                  "prefill: bandwidth of the KV transfer, bytes/s; 0: instantaneous")
      .check(non_negative())
      .capture_default_str();
  command
      .add_option_function(
          "--link-latency-ms", [flags](double ms) { flags->link.latency = Span::from_seconds(ms * 1e-3); },
          "prefill: latency of the KV transfer")
      .check(non_negative_time())
      .default_str("0.5");
  command
      .add_option("--handoff-steps", flags->link.handoff_steps,
                  "decode: mean number of steps from the KV's arrival to the request's first token")
      .check(range(0.0, 100.0))
      .capture_default_str();
  command
      .add_option_function(
          "--bootstrap-timeout-s", [flags](double s) { flags->bootstrap_timeout = Span::from_seconds(s); },
          "SGLang's contract: how long one side waits for the other")
      .check(positive_time())
      .default_str("300");
  command
      .add_option_function(
          "--load-s", [flags](double s) { flags->load = Span::from_seconds(s); },
          "Time to load its weights; until then its GPUs draw idle power and it answers 503")
      .check(non_negative_time())
      .default_str("0");
  command.add_flag("--json", flags->json, "Print the listening address as one JSON object");
  command.add_flag("--die-with-parent", flags->with_parent, "End when the process that started it ends");
  command.callback([flags, &exit_code] {
    const auto done = serve(*flags);
    exit_code = done ? *done : fail(done.error());
  });
}

}  // namespace wattle::apps
