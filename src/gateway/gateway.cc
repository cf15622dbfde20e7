#include "gateway/gateway.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <future>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "gateway/flight.h"
#include "gateway/metrics.h"
#include "gateway/planner_records.h"
#include "gateway/strand.h"
#include "gateway/telemetry_feed.h"
#include "gateway/tenants.h"
#include "net/client.h"
#include "net/clock.h"
#include "net/openai.h"

namespace wattle::gateway {

namespace {

constexpr std::string_view kJson = "application/json";

const char* text_of(Role role) {
  switch (role) {
    case Role::Colocated:
      return "colocated";
    case Role::Prefill:
      return "prefill";
    case Role::Decode:
      return "decode";
  }
  return "";
}

void answer_error(net::Exchange& exchange, const net::ApiError& error, std::string_view extra = {}) {
  exchange.respond(error.status, kJson, net::error_json(error), extra);
}

const char* text_of(ViewSource source) { return source == ViewSource::StepReports ? "step-reports" : "streams"; }

const char* text_of(Telemetry telemetry) {
  return telemetry == Telemetry::Fresh ? "fresh" : telemetry == Telemetry::Idle ? "idle" : "lost";
}

net::ApiError not_found(std::string_view path) {
  return {404, fmt::format("no such path: {}", path), "invalid_request_error", "", "not_found"};
}

}  // namespace

/// A worker and what its health probes said.
struct WorkerState {
  std::shared_ptr<const Worker> worker;
  WorkerOptions options;
  int misses = 0;
  bool up = false;
  bool removed = false;    ///< or starting
  bool starting = false;   ///< it has not said yet where it listens
  bool listening = false;  ///< to its step reports
};

struct Gateway::Impl {
  GatewayOptions options;
  net::LoopPool pool;
  net::LoopPool admin_pool{1};
  GatewayMetrics metrics;
  std::unique_ptr<AgentLinks> agents;  ///< null: none
  carbon::IntensitySeries intensity;
  std::unique_ptr<LiveLedger> ledger;  ///< on the control strand only; null: no agents
  Tenants tenants;
  ControlStrand control;
  std::vector<std::unique_ptr<net::HttpClient>> clients;  ///< by loop of the pool
  std::vector<std::unique_ptr<FlightDeck>> decks;
  std::unique_ptr<net::HttpClient> prober;     ///< on the admin loop
  std::vector<WorkerState> workers;            ///< on the control strand only
  std::vector<GatewayPolicies::Clock> clocks;  ///< by worker, until it is added
  std::function<Result<GatewayPolicies::Join>(WorkerOptions&)> join;
  std::function<std::int64_t()> extrapolations;
  std::unique_ptr<TelemetryFeed> feed;  ///< null until some worker sends step reports
  std::mutex feed_mutex;                ///< its creation
  std::atomic<std::int64_t> next_id{1};
  std::atomic<bool> disaggregated{false};  ///< some worker has the prefill role
  std::atomic<bool> stopping{false};
  std::unique_ptr<net::HttpServer> server;
  std::unique_ptr<net::HttpServer> admin;
  bool stopped = false;

  static CoreOptions core_options(const GatewayOptions& o) {
    CoreOptions core = o.core;
    core.both_legs_at_once = o.contract == PdContract::Bootstrap;
    return core;
  }

  Impl(const GatewayOptions& o, GatewayPolicies policies, std::unique_ptr<AgentLinks> links, journal::Sink& sink)
      : options(o),
        pool(std::max(1, o.threads)),
        agents(std::move(links)),
        intensity(carbon::IntensitySeries::constant(o.carbon_intensity)),
        ledger(agents ? std::make_unique<LiveLedger>(intensity, sink) : nullptr),
        control(std::move(policies.dispatch), o.seed, core_options(o),
                {{o.lost_after}, policies.hosts_clocks ? agents.get() : nullptr, ledger.get()},
                ledger ? static_cast<journal::Sink&>(*ledger) : sink),
        clocks(std::move(policies.clocks)),
        join(std::move(policies.join)),
        extrapolations(std::move(policies.extrapolations)) {}

  // ---- workers -----------------------------------------------------------------------------------------------------
  /// `late`: gives the clock policy of one that joins while the gateway runs; may be null.
  Result<InstanceId> add_worker(const WorkerOptions& wanted, std::string_view where,
                                const GatewayPolicies::Join& late = nullptr) {
    std::shared_ptr<const net::Endpoint> shared;
    if (!wanted.url.empty()) {
      auto endpoint = net::resolve_endpoint(wanted.url, where);
      if (!endpoint) return std::unexpected(endpoint.error());
      shared = std::make_shared<const net::Endpoint>(std::move(*endpoint));
    }
    if (wanted.role == Role::Prefill) disaggregated = true;
    InstanceId id = kNoInstance;
    std::optional<Error> refused;
    control.run_and_wait([&](Core& core, Instant now) {
      InstanceView view;
      view.role = wanted.role;
      view.tensor_parallel = wanted.tensor_parallel;
      view.weight = wanted.weight;
      view.kv_capacity_tokens = wanted.kv_capacity_tokens;
      view.accepting = false;
      control::AgentInstance clock;
      if (workers.size() < clocks.size()) {
        auto& hosted = clocks[workers.size()];
        clock.policy = std::move(hosted.policy);
        clock.mode = hosted.mode;
        clock.beliefs = hosted.beliefs;
      } else if (late) {
        auto hosted = late(InstanceId(static_cast<std::int32_t>(workers.size())));
        if (!hosted) {
          refused = hosted.error();
          return;
        }
        clock.policy = std::move(hosted->policy);
        clock.mode = hosted->mode;
        clock.beliefs = hosted->beliefs;
      }
      id = control.add_worker(view, shared, wanted.bootstrap_port, std::move(clock), !wanted.step_reports.empty(), now);
      const bool starting = shared == nullptr;
      workers.push_back({control.worker(id), wanted, 0, false, starting, starting, false});
      if (workers.size() > options.workers.size()) {
        control.joined(
            {id, wanted.role, options.kind.gpu, options.kind.llm, wanted.tensor_parallel, options.kind.clock_max});
      }
      if (!options.probe_health && !starting) set_up(core, id, true, now);
    });
    if (refused) return std::unexpected(*refused);
    if (agents && !wanted.step_reports.empty()) {
      // Whoever published there before is no more.
      const InstanceId before = agents->know(wanted.step_reports, id);
      if (before != kNoInstance) control.run([this, before](Core&, Instant now) { ledger->gone(before, now); });
    }
    return id;
  }

  /// The step reports of a worker added after the start, unless they are listened to.
  Result<void> listen_to(InstanceId id) {
    std::string endpoint;
    control.run_and_wait([&](Core&, Instant) {
      WorkerState& state = workers[static_cast<std::size_t>(id.value())];
      if (!std::exchange(state.listening, true)) endpoint = state.options.step_reports;
    });
    if (endpoint.empty()) return {};
    const telemetry::FpmSubscriber::Source source{endpoint, id};
    const std::lock_guard lock(feed_mutex);
    return feed ? feed->add(source) : start_feed({source});
  }

  Result<void> start_feed(const std::vector<telemetry::FpmSubscriber::Source>& sources) {
    auto started = TelemetryFeed::start(
        sources, [this](const StepReport& report, Instant received) { control.report(report, received); },
        [this] { control.tick(); });
    if (!started) return std::unexpected(started.error());
    feed = std::move(*started);
    return {};
  }

  void set_up(Core& core, InstanceId id, bool up, Instant now) {
    WorkerState& state = workers[static_cast<std::size_t>(id.value())];
    if (state.removed && up) return;
    state.up = up;
    core.set_accepting(id, up, now);
  }

  /// What runs there goes on to its end.
  void remove(InstanceId id) {
    control.run_and_wait([&](Core& core, Instant now) {
      WorkerState& state = workers[static_cast<std::size_t>(id.value())];
      state.removed = true;
      state.starting = false;
      set_up(core, id, false, now);
    });
  }

  /// Takes a removed one back, or one that has started: whoever asks has seen it alive, and the next probes judge.
  /// Without `url` where it was before. Errors: a URL that does not resolve, or none so far.
  Result<void> take_back(InstanceId id, const std::string& url) {
    std::shared_ptr<const net::Endpoint> moved;
    bool nowhere = false;
    control.run_and_wait([&](Core&, Instant) {
      nowhere = url.empty() && workers[static_cast<std::size_t>(id.value())].options.url.empty();
    });
    if (nowhere) return bad_input("url", "must say where the worker listens: it has not been told yet");
    if (!url.empty()) {
      auto endpoint = net::resolve_endpoint(url, "url");
      if (!endpoint) return std::unexpected(endpoint.error());
      moved = std::make_shared<const net::Endpoint>(std::move(*endpoint));
    }
    if (auto listening = listen_to(id); !listening) return listening;
    control.run_and_wait([&](Core& core, Instant now) {
      WorkerState& state = workers[static_cast<std::size_t>(id.value())];
      if (moved && url != state.options.url) {
        control.move(id, moved);
        state.worker = control.worker(id);
        state.options.url = url;
      }
      state.starting = false;
      state.removed = false;
      state.misses = 0;
      set_up(core, id, true, now);
    });
    return {};
  }

  void probed(InstanceId id, bool healthy) {
    control.run([this, id, healthy](Core& core, Instant now) {
      WorkerState& state = workers[static_cast<std::size_t>(id.value())];
      state.misses = healthy ? 0 : state.misses + 1;
      if (healthy != state.up && (healthy || state.misses >= options.health_misses)) set_up(core, id, healthy, now);
    });
  }

  struct Probe final : net::ResponseHandler {
    Impl& gateway;
    InstanceId id;
    bool healthy = false;
    Probe(Impl& g, InstanceId i) : gateway(g), id(i) {}
    void on_head(int status, const net::HeaderFields&, std::int64_t) override { healthy = status / 100 == 2; }
    void on_body(std::string_view) override {}
    void on_end() override { gateway.probed(id, healthy); }
    void on_failure(net::CallFailure) override { gateway.probed(id, false); }
  };

  void probe_all() {
    std::vector<std::shared_ptr<const Worker>> all;
    std::vector<InstanceId> over;
    control.run_and_wait([&](Core& core, Instant) {
      for (auto& state : workers) {
        if (!state.removed) all.push_back(state.worker);
        const auto& view = core.instances()[static_cast<std::size_t>(state.worker->id.value())];
        // A removed one is listened to for as long as it has requests.
        if (!state.removed || !state.listening || view.assigned_requests > 0) continue;
        state.listening = false;
        over.push_back(state.worker->id);
      }
    });
    if (feed) {
      for (const InstanceId id : over) feed->drop(id);
    }
    for (const auto& worker : all) {
      prober->send(worker->endpoint, "GET", "/health", {}, {}, std::make_shared<Probe>(*this, worker->id));
    }
  }

  // ---- data plane --------------------------------------------------------------------------------------------------
  void handle(const std::shared_ptr<net::Exchange>& exchange, FlightDeck& deck) {
    const std::string_view path = exchange->path();
    if (path == "/v1/chat/completions") return complete(exchange, deck, net::ApiPath::Chat);
    if (path == "/v1/completions") return complete(exchange, deck, net::ApiPath::Completions);
    if (path == "/v1/models") {
      if (!only(*exchange, "GET")) return;
      return exchange->respond(200, kJson, models_json());
    }
    if (path == "/health") {
      if (!only(*exchange, "GET")) return;
      return health(*exchange);
    }
    metrics.answered(404);
    answer_error(*exchange, not_found(path));
  }

  bool only(net::Exchange& exchange, std::string_view method) {
    if (exchange.method() == method || (method == "GET" && exchange.method() == "HEAD")) return true;
    metrics.answered(405);
    answer_error(
        exchange,
        {405, fmt::format("use {} on {}", method, exchange.path()), "invalid_request_error", "", "method_not_allowed"},
        fmt::format("Allow: {}\r\n", method));
    return false;
  }

  void complete(const std::shared_ptr<net::Exchange>& exchange, FlightDeck& deck, net::ApiPath path) {
    if (!only(*exchange, "POST")) return;
    const auto refuse = [&](const net::ApiError& error) {
      metrics.answered(error.status);
      answer_error(*exchange, error);
    };
    auto asked = net::read_completion(path, exchange->body());
    if (!asked) return refuse(asked.error());
    if (std::ranges::find(options.models, asked->model) == options.models.end()) {
      return refuse({404, fmt::format("the model `{}` does not exist", asked->model), "invalid_request_error", "model",
                     "model_not_found"});
    }
    if (disaggregated.load(std::memory_order_relaxed)) {
      if (asked->n > 1) {
        return refuse({400, "n > 1 is not supported with prefill/decode disaggregation: a KV handle has one consumer",
                       "invalid_request_error", "n", "unsupported_value"});
      }
      if (asked->has_kv_params) {
        return refuse({400, "kv_transfer_params and bootstrap_* are set by the gateway", "invalid_request_error",
                       "kv_transfer_params", "unsupported_value"});
      }
    }
    Request request;
    request.id = RequestId(next_id.fetch_add(1, std::memory_order_relaxed));
    request.arrival = net::steady_now();
    request.prompt_tokens = asked->prompt_tokens;
    request.max_tokens = asked->max_tokens > 0 ? asked->max_tokens : options.default_max_tokens;
    // What a client knows better than we can guess.
    const auto hint = [&](const char* name, std::int32_t& tokens) {
      const auto text = exchange->headers().get(name);
      if (text.empty()) return true;
      const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), tokens);
      if (ec == std::errc() && end == text.data() + text.size() && tokens >= 1) return true;
      refuse({400, fmt::format("{} must be a positive integer", name), "invalid_request_error", name, ""});
      return false;
    };
    if (!hint("X-Wattle-Prompt-Tokens", request.prompt_tokens)) return;
    request.tenant = tenants.id_of(exchange->headers().get("X-Wattle-Tenant"));
    if (!hint("X-Wattle-Predicted-Output-Tokens", request.predicted_output_tokens)) return;
    std::make_shared<Flight>(deck, exchange, *asked, request)->take_off();
  }

  [[nodiscard]] std::string models_json() const {
    nlohmann::ordered_json body{{"object", "list"}, {"data", nlohmann::ordered_json::array()}};
    for (const auto& name : options.models) {
      body["data"].push_back({{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "wattle"}});
    }
    return body.dump();
  }

  void health(net::Exchange& exchange) {
    bool ready = false;
    control.run_and_wait([&](Core& core, Instant) { ready = core.ready(); });
    if (ready && !stopping) return exchange.respond(200, kJson, R"({"status":"ok"})");
    answer_error(exchange, {503, "no instance is ready", "service_unavailable_error", "", "not_ready"},
                 "Retry-After: 1\r\n");
  }

  // ---- admin plane -------------------------------------------------------------------------------------------------
  void handle_admin(const std::shared_ptr<net::Exchange>& exchange) {
    const std::string_view path = exchange->path();
    if (path == "/health") return health(*exchange);
    if (path == "/metrics") {
      if (!only(*exchange, "GET")) return;
      return exchange->respond(200, "text/plain; version=0.0.4; charset=utf-8", metrics_text());
    }
    if (path == "/usage") {
      if (!only(*exchange, "GET")) return;
      return exchange->respond(200, kJson, usage_json());
    }
    if (path == "/journal") {
      if (!only(*exchange, "POST")) return;
      return post_records(*exchange);
    }
    if (path == "/workers") {
      if (exchange->method() == "GET") return exchange->respond(200, kJson, workers_json(-1));
      if (exchange->method() == "POST") return post_worker(*exchange);
      only(*exchange, "GET");
      return;
    }
    if (path.starts_with("/workers/")) return one_worker(*exchange, path.substr(9));
    answer_error(*exchange, not_found(path));
  }

  std::string metrics_text() {
    std::vector<GatewayMetrics::WorkerRow> rows;
    CoreCounts counts;
    control::DispatchCounts dispatch;
    Histogram report_to_command_ns;
    GatewayMetrics::Extras extras;
    control.run_and_wait([&](Core& core, Instant now) {
      if (extrapolations) extras.extrapolations = extrapolations();
      if (const auto length = core.length()) extras.lengths = length->counts();
      counts = core.counts();
      dispatch = core.dispatch_counts();
      report_to_command_ns = control.report_to_command_ns();
      for (const auto& state : workers) {
        const InstanceId id = state.worker->id;
        const auto& view = core.instances()[static_cast<std::size_t>(id.value())];
        rows.push_back({state.options.url, text_of(view.role), view.accepting, view.assigned_requests,
                        control.telemetry(id), control.source(id, now), now - view.step.start});
      }
    });
    extras.connections = server ? server->connections() : 0;
    if (feed) {
      extras.drops = feed->drops();
      extras.report_sources = static_cast<std::int64_t>(feed->sources());
    }
    return metrics.text(counts, dispatch, rows, extras, report_to_command_ns);
  }

  static nlohmann::ordered_json usage_of(const Usage& usage) {
    return {{"requests", usage.requests},
            {"prompt_tokens", usage.prompt_tokens},
            {"output_tokens", usage.output_tokens},
            {"energy_j", usage.energy.joules().value()},
            {"carbon_g", usage.carbon.value()}};
  }

  /// What requests have used, by tenant, and the newest of them. Energy is metered; a request's comes with the reading
  /// after its end.
  std::string usage_json() {
    nlohmann::ordered_json body;
    control.run_and_wait([&](Core&, Instant) {
      if (!ledger) return;
      const auto totals = ledger->totals();
      const auto joules = [](const carbon::Booking& b) { return b.energy.joules().value(); };
      body["energy_j"] = {{"metered", ledger->counts().metered.joules().value()},
                          {"total", joules(totals.total)},
                          {"prefill", joules(totals.prefill)},
                          {"decode", joules(totals.decode)},
                          {"idle", joules(totals.idle)},
                          {"residue", joules(totals.residue)}};
      body["carbon_g"] = totals.total.carbon.grams().value();
      body["unmetered_s"] = ledger->counts().unmetered.seconds();
      body["requests"] = usage_of(ledger->usage());
      auto& by_tenant = body["tenants"] = nlohmann::ordered_json::object();
      for (const auto& [id, usage] : ledger->by_tenant()) by_tenant[tenants.name_of(TenantId(id))] = usage_of(usage);
      auto& recent = body["recent"] = nlohmann::ordered_json::array();
      for (const auto& o : ledger->recent()) {
        recent.push_back({{"id", request_name(o.request.id)},
                          {"tenant", tenants.name_of(o.request.tenant)},
                          {"prompt_tokens", o.request.prompt_tokens},
                          {"output_tokens", o.output_tokens},
                          {"energy_j", o.energy.joules().value()},
                          {"carbon_g", o.carbon.value()}});
      }
    });
    if (body.is_null()) body["note"] = "no agent: energy is not metered";
    return body.dump();
  }

  static const char* status_of(const WorkerState& state) {
    if (state.starting) return "starting";
    return state.removed ? "removed" : (state.up ? "ready" : "not_ready");
  }

  std::string workers_json(std::int32_t only_id) {
    auto list = nlohmann::ordered_json::array();
    control.run_and_wait([&](Core& core, Instant now) {
      for (const auto& state : workers) {
        const std::int32_t id = state.worker->id.value();
        if (only_id >= 0 ? id != only_id : state.removed && !state.starting) continue;
        const auto& view = core.instances()[static_cast<std::size_t>(id)];
        list.push_back({{"id", std::to_string(id)},
                        {"url", state.options.url},
                        {"models", options.models},
                        {"worker_type", view.role == Role::Colocated ? "regular" : text_of(view.role)},
                        {"connection_mode", "http"},
                        {"is_healthy", state.up},
                        {"status", status_of(state)},
                        {"active_requests", view.assigned_requests},
                        {"view",
                         {{"source", text_of(control.source(view.id, now))},
                          {"age_ms", std::max(Span(), now - view.step.start).millis()},
                          {"telemetry", text_of(view.telemetry)},
                          {"decode_requests", view.step.shape.decode_requests},
                          {"waiting_requests", view.step.waiting_requests},
                          {"kv_tokens", view.step.kv_tokens},
                          {"clock_mhz", view.clock_commanded.value()}}}});
      }
    });
    if (only_id >= 0) return list.empty() ? std::string() : list[0].dump();
    return nlohmann::ordered_json{{"workers", list}}.dump();
  }

  void post_worker(net::Exchange& exchange) {
    const auto refuse = [&](const char* param, std::string message) {
      answer_error(exchange, {400, std::move(message), "invalid_request_error", param, ""});
    };
    auto wanted = read_worker(exchange.body());
    if (!wanted) return answer_error(exchange, wanted.error());
    GatewayPolicies::Join late;
    if (join) {
      auto made = join(*wanted);
      if (!made) return refuse("", made.error().message());
      late = std::move(*made);
    }
    const auto id = add_worker(*wanted, "url", late);
    if (!id) return refuse("url", id.error().message());
    if (!wanted->url.empty()) {
      if (const auto listening = listen_to(*id); !listening) {
        remove(*id);
        return refuse("step_reports", listening.error().message());
      }
    }
    exchange.respond(202, kJson, nlohmann::json{{"id", std::to_string(id->value())}, {"status", "accepted"}}.dump());
  }

  /// What a planner has decided, for the journal.
  void post_records(net::Exchange& exchange) {
    const auto records = read_planner_records(exchange.body(), net::steady_now());
    if (!records) return answer_error(exchange, records.error());
    InstanceId unknown = kNoInstance;
    control.run_and_wait([&](Core&, Instant now) {
      const auto count = static_cast<std::int32_t>(workers.size());
      for (const auto& r : *records) {
        if (r.instance.value() >= count) unknown = r.instance;
      }
      if (unknown != kNoInstance) return;
      for (const auto& r : *records) {
        control.decided(r);
        const bool gone = r.kind == journal::DecisionKind::Phase && r.value == static_cast<int>(journal::Phase::Gone);
        if (!gone || !agents) continue;
        agents->forget(r.instance);
        ledger->gone(r.instance, now);
      }
    });
    if (unknown != kNoInstance) {
      return answer_error(exchange, {400, fmt::format("there is no worker {}", unknown.value()),
                                     "invalid_request_error", "records", ""});
    }
    exchange.respond(202, kJson, nlohmann::json{{"taken", records->size()}}.dump());
  }

  void one_worker(net::Exchange& exchange, std::string_view text) {
    std::int32_t id = -1;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), id);
    const std::string found =
        ec == std::errc() && end == text.data() + text.size() && id >= 0 ? workers_json(id) : std::string();
    if (found.empty()) return answer_error(exchange, not_found(exchange.path()));
    if (exchange.method() == "GET") return exchange.respond(200, kJson, found);
    if (exchange.method() == "PUT") {
      std::string url;
      if (!exchange.body().empty()) {
        const auto body = nlohmann::json::parse(exchange.body(), nullptr, false);
        const auto told = body.is_object() ? body.find("url") : body.end();
        if (told == body.end() || !told->is_string()) {
          return answer_error(exchange, {400, "the body, if any, must be a JSON object with the string \"url\"",
                                         "invalid_request_error", "url", ""});
        }
        url = told->get<std::string>();
      }
      if (const auto taken = take_back(InstanceId(id), url); !taken) {
        return answer_error(exchange, {400, taken.error().message(), "invalid_request_error", "url", ""});
      }
      return exchange.respond(202, kJson, nlohmann::json{{"id", std::to_string(id)}, {"status", "accepted"}}.dump());
    }
    if (exchange.method() != "DELETE") {
      only(exchange, "GET");
      return;
    }
    remove(InstanceId(id));
    exchange.respond(202, kJson, nlohmann::json{{"id", std::to_string(id)}, {"status", "draining"}}.dump());
  }

  // ---- life --------------------------------------------------------------------------------------------------------
  static void run_on(net::Loop& loop, const std::function<void()>& task) {
    std::promise<void> done;
    loop.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

  Result<void> listen() {
    for (int i = 0; i < pool.size(); ++i) {
      run_on(pool.at(i), [&] { clients.push_back(std::make_unique<net::HttpClient>(pool.at(i), options.client)); });
      decks.push_back(std::make_unique<FlightDeck>(FlightDeck{
          *clients.back(), control, metrics, options.core.slo.itl,
          [this](InstanceId id) { control.run([this, id](Core& core, Instant now) { set_up(core, id, false, now); }); },
          options.contract, std::mt19937_64(std::random_device{}())}));
    }
    auto data = net::HttpServer::listen(
        pool, options.listen,
        [this](std::shared_ptr<net::Exchange> exchange) {
          for (int i = 0; i < pool.size(); ++i) {
            if (&pool.at(i) == &exchange->loop()) return handle(exchange, *decks[static_cast<std::size_t>(i)]);
          }
        },
        net::problem_json);
    if (!data) return std::unexpected(data.error());
    server = std::move(*data);
    auto other = net::HttpServer::listen(
        admin_pool, options.admin, [this](std::shared_ptr<net::Exchange> exchange) { handle_admin(exchange); },
        net::problem_json);
    if (!other) return std::unexpected(other.error());
    admin = std::move(*other);
    std::vector<telemetry::FpmSubscriber::Source> sources;
    for (const auto& worker : options.workers) {
      const auto added = add_worker(worker, fmt::format("--worker {}", worker.url));
      if (!added) return std::unexpected(added.error());
      if (worker.step_reports.empty()) continue;
      sources.push_back({worker.step_reports, *added});
      control.run_and_wait([&](Core&, Instant) { workers[static_cast<std::size_t>(added->value())].listening = true; });
    }
    if (agents) {
      agents->start({[this](const EngineReading& reading) { control.reading(reading); },
                     [this](const journal::DecisionRecord& record) { control.decided(record); }});
    }
    if (!sources.empty()) {
      if (auto started = start_feed(sources); !started) return started;
    }
    net::ClientOptions probing;
    probing.head_timeout = Span::s(2);
    probing.body_timeout = Span::s(2);
    run_on(admin_pool.at(0), [&] { prober = std::make_unique<net::HttpClient>(admin_pool.at(0), probing); });
    if (options.probe_health) {
      admin_pool.at(0).post([this] { probe_all(); });
      admin_pool.at(0).every(options.health_period, [this] { probe_all(); });
    }
    return {};
  }

  void stop(Span grace) {
    if (stopped) return;
    stopped = true;
    stopping = true;
    if (server) server->stop(grace);
    if (admin) admin->stop(Span());
    feed.reset();
    if (agents) {
      agents->stop();
      control.run_and_wait([&](Core&, Instant now) { ledger->close(now); });
    }
    if (prober) run_on(admin_pool.at(0), [&] { prober.reset(); });
    for (int i = 0; i < static_cast<int>(clients.size()); ++i) {
      run_on(pool.at(i), [&] { clients[static_cast<std::size_t>(i)].reset(); });
    }
    pool.stop();
    admin_pool.stop();
  }
};

Gateway::Gateway(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Gateway::~Gateway() { stop(Span()); }

Result<std::unique_ptr<Gateway>> Gateway::start(const GatewayOptions& options, GatewayPolicies policies,
                                                journal::Sink& sink) {
  std::unique_ptr<AgentLinks> links;
  if (!options.agents.urls.empty()) {
    auto made = AgentLinks::make(options.agents);
    if (!made) return std::unexpected(made.error());
    links = std::move(*made);
  }
  auto gateway = std::unique_ptr<Gateway>(
      new Gateway(std::make_unique<Impl>(options, std::move(policies), std::move(links), sink)));
  if (auto listening = gateway->impl_->listen(); !listening) return std::unexpected(listening.error());
  return gateway;
}

std::uint16_t Gateway::port() const { return impl_->server->port(); }
std::uint16_t Gateway::admin_port() const { return impl_->admin->port(); }

CoreCounts Gateway::counts() const {
  CoreCounts counts;
  impl_->control.run_and_wait([&](Core& core, Instant) { counts = core.counts(); });
  return counts;
}

carbon::Totals Gateway::energy() const {
  carbon::Totals totals;
  impl_->control.run_and_wait([&](Core&, Instant) {
    if (impl_->ledger) totals = impl_->ledger->totals();
  });
  return totals;
}

void Gateway::stop(Span grace) { impl_->stop(grace); }

}  // namespace wattle::gateway
