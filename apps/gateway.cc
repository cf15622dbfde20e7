#include <fmt/core.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "compose.h"
#include "live/gateway/gateway.h"
#include "live_fleet.h"

namespace wattle::apps {

namespace {

struct GatewayFlags {
  std::string listen = "127.0.0.1:8000";
  std::string admin = "127.0.0.1:8001";
  std::vector<std::string> workers;
  std::vector<std::string> models;
  FleetFlags fleet;
  int threads = 2;
  double ttft_slo_ms = 0;
  double itl_slo_ms = 0;
  std::int64_t max_requests = 4096;
  std::uint64_t max_body_bytes = 8ULL << 20;
  double drain_s = 10;
  std::int32_t default_max_tokens = 4096;
  std::uint64_t seed = 1;
};

/// The recipe over the workers there are; fills in what is believed of them.
Result<live::GatewayPolicies> make_policies(LiveFleet& fleet, live::GatewayOptions& options) {
  std::vector<RoutedInstance> instances;
  for (auto& worker : options.workers) {
    const auto capacity = fleet.kv_capacity_tokens(worker.tensor_parallel);
    if (!capacity) return std::unexpected(capacity.error());
    worker.kv_capacity_tokens = *capacity;
    const auto beliefs = fleet.beliefs(worker.role, worker.tensor_parallel);
    if (!beliefs) return std::unexpected(beliefs.error());
    instances.push_back({worker.role, options.core.slo, *beliefs});
  }
  live::GatewayPolicies made;
  auto dispatch = make_dispatch_policies(fleet.recipe(), instances);
  if (!dispatch) return std::unexpected(dispatch.error());
  auto length = make_length_belief(fleet.recipe());
  if (!length) return std::unexpected(length.error());
  dispatch->length = std::move(*length);
  made.dispatch = std::move(*dispatch);
  return made;
}

Result<void> run_gateway(const GatewayFlags& flags) {
  live::GatewayOptions options;
  const auto bind = [](const std::string& text, const char* flag, live::ServerOptions& out) -> Result<void> {
    const auto place = live::parse_host_port(text, flag);
    if (!place) return std::unexpected(place.error());
    out.host = place->host;
    out.port = place->port;
    return {};
  };
  if (auto ok = bind(flags.listen, "--listen", options.listen); !ok) return ok;
  if (auto ok = bind(flags.admin, "--admin", options.admin); !ok) return ok;
  for (const auto& text : flags.workers) {
    const auto worker = live::parse_worker(text, "--worker");
    if (!worker) return std::unexpected(worker.error());
    options.workers.push_back(*worker);
  }
  options.models = flags.models;
  options.threads = flags.threads;
  options.seed = flags.seed;
  options.default_max_tokens = flags.default_max_tokens;
  options.core.max_requests = flags.max_requests;
  options.listen.limits.body_bytes = flags.max_body_bytes;
  if (flags.ttft_slo_ms > 0) options.core.slo.ttft = Span::from_seconds(flags.ttft_slo_ms * 1e-3);
  if (flags.itl_slo_ms > 0) options.core.slo.itl = Span::from_seconds(flags.itl_slo_ms * 1e-3);

  LiveFleet fleet;
  live::GatewayPolicies policies;
  if (!flags.fleet.recipe.empty()) {
    auto loaded = LiveFleet::load(flags.fleet);
    if (!loaded) return std::unexpected(loaded.error());
    fleet = std::move(*loaded);
    auto made = make_policies(fleet, options);
    if (!made) return std::unexpected(made.error());
    policies = std::move(*made);
  }

  // Before any thread starts, so that all of them inherit the mask and only this one hears the signal.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  journal::Sink sink;
  auto gateway = live::Gateway::start(options, std::move(policies), sink);
  if (!gateway) return std::unexpected(gateway.error());
  fmt::print("wattle gateway: listening on http://{}:{}, admin on http://{}:{}, {} worker(s)\n", options.listen.host,
             (*gateway)->port(), options.admin.host, (*gateway)->admin_port(), options.workers.size());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  (*gateway)->stop(Span::from_seconds(flags.drain_s));
  const auto counts = (*gateway)->counts();
  fmt::print("wattle gateway: arrived {}, finished {}, rejected {}, failed {}, cancelled {}, in flight {}\n",
             counts.arrived, counts.finished, counts.rejected, counts.failed, counts.cancelled, counts.in_flight);
  return {};
}

}  // namespace

void add_gateway(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("gateway", "An OpenAI-compatible gateway in front of inference engines");
  auto flags = std::make_shared<GatewayFlags>();
  command->add_option("--listen", flags->listen, "HOST:PORT of the data plane; port 0 takes a free one")
      ->capture_default_str();
  command->add_option("--admin", flags->admin, "HOST:PORT of the admin plane: /metrics, /health, /workers")
      ->capture_default_str();
  command->add_option("--worker", flags->workers,
                      "an engine: URL[=prefill|decode|colocated][,fpm=ENDPOINT][,tp=N]; repeatable. fpm: where it "
                      "publishes forward-pass metrics; without, its load is inferred from the streams relayed");
  command->add_option("--model", flags->models, "a model name clients may ask for; repeatable")->required();
  add_fleet_flags(*command, flags->fleet);
  command->get_option("--recipe")->description("Policies by recipe name or file; without it: least assigned");
  command
      ->add_option("--default-max-tokens", flags->default_max_tokens,
                   "what policies take as the most output tokens of a request that does not say")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "data-plane threads")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--ttft-slo-ms", flags->ttft_slo_ms, "time to first token; 0 = not judged")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--itl-slo-ms", flags->itl_slo_ms, "gap between tokens; 0 = not judged")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--max-requests", flags->max_requests, "held and in flight together; beyond: 429")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--max-body-bytes", flags->max_body_bytes, "larger request bodies: 413")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--drain-s", flags->drain_s, "on SIGINT/SIGTERM, how long running streams may go on")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", flags->seed, "of the policies' random streams")->capture_default_str();
  command->callback([flags, &exit_code] {
    if (const auto result = run_gateway(*flags); !result) exit_code = fail(result.error());
  });
}

}  // namespace wattle::apps
