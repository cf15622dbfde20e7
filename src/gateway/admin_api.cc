#include "gateway/admin_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "gateway/planner_records.h"
#include "gateway/request_end.h"
#include "journal/names.h"
#include "journal/summary_json.h"
#include "net/answers.h"
#include "net/browser.h"
#include "net/clock.h"
#include "net/log.h"

namespace wattle::gateway {

namespace {

constexpr std::size_t kShown = 256;  ///< of the newest requests

const char* text_of(ViewSource source) { return source == ViewSource::StepReports ? "step-reports" : "streams"; }

const char* text_of(Telemetry telemetry) {
  return telemetry == Telemetry::Fresh ? "fresh" : telemetry == Telemetry::Idle ? "idle" : "lost";
}

template <typename Quantity>
nlohmann::ordered_json or_null(Quantity quantity) {
  return std::isnan(quantity.value()) ? nlohmann::ordered_json() : nlohmann::ordered_json(quantity.value());
}

nlohmann::ordered_json table_of(const std::vector<journal::UsageRow>& rows, bool of_requests) {
  auto table = nlohmann::ordered_json::object();
  for (const auto& row : rows) table[row.name] = journal::to_json(row, of_requests);
  return table;
}

/// Of instances or sites. A request may have been at several: it is counted where it was asked for alone.
nlohmann::ordered_json places_of(const std::vector<journal::UsageRow>& rows) {
  auto table = table_of(rows, false);
  for (const auto& row : rows) {
    table[row.name]["unknown_carbon_j"] = or_null(row.unknown_carbon);
    table[row.name]["unknown_price_j"] = or_null(row.unknown_price);
  }
  return table;
}

/// How far what was last asked about a worker has come, as SMG's answers say it.
nlohmann::ordered_json job_of(const WorkerState& state, std::int32_t requests, int health_misses) {
  const auto job = [](const char* type, const char* status, std::string message) {
    return nlohmann::ordered_json{{"job_type", type}, {"status", status}, {"message", std::move(message)}};
  };
  if (state.starting) return job("AddWorker", "pending", "it has not said yet where it listens");
  if (state.removed && requests > 0) return job("RemoveWorker", "processing", fmt::format("{} to go", requests));
  if (state.removed) return job("RemoveWorker", "succeeded", "");
  if (state.admitted) return job("AddWorker", "succeeded", "");
  if (state.misses < health_misses) return job("AddWorker", "processing", "waits for its first health check");
  return job("AddWorker", "failed", fmt::format("{} health checks failed; it is asked again", state.misses));
}

const char* status_of(const WorkerState& state) {
  if (state.starting) return "starting";
  return state.removed ? "removed" : (state.up && !state.foreign ? "ready" : "not_ready");
}

}  // namespace

void AdminApi::handle(const std::shared_ptr<net::Exchange>& exchange) {
  const std::string_view path = exchange->path();
  if (path == "/health") return clients_.health(*exchange);
  if (!trusted(*exchange) || net::refused_as_too_deep(*exchange)) return;
  if (path == "/metrics") {
    if (!only(*exchange, {"GET"})) return;
    return exchange->respond(200, "text/plain; version=0.0.4; charset=utf-8", metrics_text());
  }
  if (path == "/usage") {
    if (!only(*exchange, {"GET"})) return;
    return answer_json(*exchange, 200, usage());
  }
  if (path.starts_with("/usage/requests/")) {
    if (!only(*exchange, {"GET"})) return;
    return usage_of(*exchange, net::percent_decoded(path.substr(16)));
  }
  if (path == "/journal") {
    if (!only(*exchange, {"POST"})) return;
    return post_records(*exchange);
  }
  if (path == "/workers") {
    if (!only(*exchange, {"GET", "POST"})) return;
    if (exchange->method() == "POST") return post_worker(*exchange);
    return answer_json(*exchange, 200, {{"workers", workers(std::nullopt)}});
  }
  if (path == "/plan") return plan(*exchange);
  if (path == "/queue") return queue(*exchange);
  if (path.starts_with("/workers/")) return one_worker(*exchange, path.substr(9));
  answer_not_found(*exchange);
}

std::string AdminApi::metrics_text() {
  std::vector<GatewayMetrics::WorkerRow> rows;
  journal::RequestCounts counts;
  Histogram report_to_command_ns;
  GatewayMetrics::Extras extras;
  control_.run_and_wait([&](control::FleetLoop& core, Instant now) {
    if (extrapolations_) extras.extrapolations = extrapolations_();
    if (const auto length = core.length()) extras.lengths = length->counts();
    counts = core.counts();
    extras.learnt = control_.learnt();
    extras.tokens = core.tokens();
    report_to_command_ns = control_.report_to_command_ns();
    extras.used = ledger_.consumption([this](TenantId tenant) { return tenants_.name_of(tenant); });
    for (std::size_t n = 0; n < options_.sites.size(); ++n) {
      if (options_.sites[n].name.empty()) continue;
      const SiteId site(static_cast<std::int32_t>(n));
      extras.intensities.push_back({options_.sites[n].name, ledger_.ledger().intensity(site, now)});
    }
    extras.unmetered_workers = workers_.unmetered(core, now);
    extras.foreign_workers = workers_.foreign();
    extras.unmetered_requests = ledger_.unmetered_requests();
    extras.by_model = ledger_.by_model(options_.models, [this](TenantId tenant) { return tenants_.name_of(tenant); });
    for (const auto& state : workers_.states()) {
      const InstanceId id = state.worker->id;
      const auto& view = core.shown(id);
      if (!state.stays() && view.assigned_requests == 0) continue;  // series of the gone only pile up
      const auto& endpoint = state.worker->endpoint;
      rows.push_back({id, endpoint ? endpoint->url : state.options.url,
                      std::string(journal::name_of(state.worker->role)), view.accepting, view.assigned_requests,
                      control_.telemetry(id), control_.source(id, now), now - view.step.start});
    }
  });
  extras.connections = connections_();
  if (agents_ != nullptr) extras.agents_differ = agents_->differing();
  if (resent_) extras.resent = resent_();
  if (lengths_ != nullptr) extras.length_fits = lengths_->counts();
  if (observer_ != nullptr) extras.observed = observer_->counts();
  extras.log_dropped = net::log_lines_lost() + (extras.observed ? extras.observed->lines_dropped : 0);
  if (options_.journal) {
    const auto state = options_.journal();
    extras.journal = {true, !state.problem.empty(), state.dropped};
  }
  if (const TelemetryFeed* feed = workers_.feed()) {
    extras.drops = feed->drops();
    extras.report_sources = static_cast<std::int64_t>(feed->sources());
  }
  return metrics_.text(counts, rows, extras, report_to_command_ns);
}

nlohmann::ordered_json AdminApi::usage() {
  nlohmann::ordered_json body;
  control_.run_and_wait([&](control::FleetLoop&, Instant) {
    const auto used = ledger_.consumption([this](TenantId id) { return tenants_.name_of(id); });
    body["energy_j"] = {{"metered", ledger_.counts().metered.joules().value()},
                        {"total", or_null(used.energy.total)},
                        {"prefill", or_null(used.energy.prefill)},
                        {"decode", or_null(used.energy.decode)},
                        {"idle", or_null(used.energy.idle)},
                        {"residue", or_null(used.energy.residue)},
                        {"unknown_carbon", or_null(used.energy.unknown_carbon)},
                        {"unknown_price", or_null(used.energy.unknown_price)}};
    body["carbon_g"] = or_null(used.carbon);
    body["cost_usd"] = or_null(used.cost);
    body["meters"] = used.meters;
    body["unmetered_s"] = used.unmetered_s;
    body["gpu_s"] = used.gpu_s;
    body["requests"] = journal::to_json(used.all_requests, true);
    body["tenants"] = table_of(used.by_tenant, true);
    body["classes"] = table_of(used.by_class, true);
    auto& models = body["models"] = nlohmann::ordered_json::object();
    for (const auto& model : ledger_.by_model(options_.models, nullptr)) {
      models[model.all.name] = journal::to_json(model.all, true);
    }
    body["instances"] = places_of(used.by_instance);
    body["sites"] = places_of(used.by_site);
    auto& recent = body["recent"] = nlohmann::ordered_json::array();
    const std::size_t all = ledger_.recents();
    for (std::size_t i = all - std::min(all, kShown); i < all; ++i) recent.push_back(row_of(ledger_.recent(i)));
  });
  if (agents_ == nullptr) body["note"] = "no agent: energy is not metered, hence unknown (null)";
  return body;
}

namespace {

/// By which it is looked up: its client's, or ours.
std::string name_of(const LiveLedger::Recent& recent) {
  return recent.name.empty() ? request_name(recent.outcome.request.id) : recent.name;
}

}  // namespace

nlohmann::ordered_json AdminApi::row_of(const LiveLedger::Recent& recent) const {
  const Outcome& o = recent.outcome;
  const auto metered = [&o](double quantity) {
    return o.metered ? nlohmann::ordered_json(quantity) : nlohmann::ordered_json();
  };
  const auto counted = [](std::int32_t tokens) {
    return tokens >= 0 ? nlohmann::ordered_json(tokens) : nlohmann::ordered_json();
  };
  return {{"id", name_of(recent)},
          {"tenant", tenants_.name_of(o.request.tenant)},
          {"fate", journal::name_of(o.fate)},
          {"prompt_tokens", o.request.prompt_tokens},
          {"prompt_counted", recent.counted.prompt >= 0},
          {"cached_tokens", counted(recent.counted.cached)},
          {"output_tokens", o.output_tokens},
          {"reasoning_tokens", counted(recent.counted.reasoning)},
          {"energy_j", metered(o.energy.joules().value())},
          {"carbon_g", metered(o.carbon.value())},
          {"cost_usd", or_null(o.cost)}};
}

void AdminApi::usage_of(net::Exchange& exchange, std::string_view name) {
  auto rows = nlohmann::ordered_json::array();
  control_.run_and_wait([&](control::FleetLoop&, Instant) {
    for (std::size_t i = 0; i < ledger_.recents(); ++i) {
      const auto& recent = ledger_.recent(i);
      if (name_of(recent) == name) rows.push_back(row_of(recent));
    }
  });
  if (rows.empty()) return answer_not_found(exchange);
  answer_json(exchange, 200, {{"requests", std::move(rows)}});
}

/// On a Unix socket those whom the kernel vouches for; else those that know the token. Without one, any program that
/// reaches the address, but no page in a browser that does.
bool AdminApi::trusted(net::Exchange& exchange) {
  if (const net::Peer* peer = exchange.peer()) {
    if (options_.admin_peers.allow(*peer)) return true;
    answer_error(exchange,
                 {403, fmt::format("user {} may not use the admin plane (--admin-user, --admin-group)", peer->user),
                  "invalid_request_error", "", "forbidden_peer"});
    return false;
  }
  if (options_.admin_token) {
    const auto token = net::bearer(exchange.headers().get("Authorization"));
    if (net::same(net::sha256(token), *options_.admin_token)) return true;
    answer_error(exchange, {401, "the admin plane wants its token", "invalid_request_error", "", "invalid_token"},
                 "WWW-Authenticate: Bearer\r\n");
    return false;
  }
  return !net::refused_as_page(exchange);
}

nlohmann::ordered_json AdminApi::workers(std::optional<std::int32_t> only_id) {
  auto list = nlohmann::ordered_json::array();
  control_.run_and_wait([&](control::FleetLoop& core, Instant now) {
    control_.look(now);
    for (const auto& state : workers_.states()) {
      const std::int32_t id = state.worker->id.value();
      if (only_id ? id != *only_id : !state.stays()) continue;
      const auto& view = core.shown(state.worker->id);
      list.push_back(
          {{"id", std::to_string(id)},
           {"url", state.options.url},
           {"models", state.options.models.empty() ? options_.models : state.options.models},
           {"worker_type", state.worker->role == Role::Colocated ? "regular" : journal::name_of(state.worker->role)},
           {"connection_mode", "http"},
           {"is_healthy", state.up},
           {"status", status_of(state)},
           {"job_status", job_of(state, view.assigned_requests, options_.health_misses)},
           {"active_requests", view.assigned_requests},
           {"weight", state.options.weight},
           {"type", state.options.type},
           {"site", state.options.site},
           {"pool", view.spec->pool.value()},
           {"decode", state.options.decode == kNoInstance ? "" : std::to_string(state.options.decode.value())},
           {"node", view.spec->node.value()},
           {"view",
            {{"source", text_of(control_.source(state.worker->id, now))},
             {"age_ms", std::max(Span(), now - view.step.start).millis()},
             {"telemetry", text_of(view.telemetry)},
             {"decode_requests", view.step.shape.decode_requests},
             {"waiting_requests", view.step.waiting_requests},
             {"kv_tokens", view.step.kv_tokens},
             {"clock_mhz", view.clock_commanded.value()}}}});
      if (const auto gauged = control_.gauged(state.worker->id, now)) {
        auto& said = list.back()["view"]["gauges"];
        said["age_ms"] = (now - gauged->at).millis();
        if (gauged->said.running) said["running"] = *gauged->said.running;
        if (gauged->said.waiting) said["waiting"] = *gauged->said.waiting;
        if (gauged->said.kv_tokens) said["kv_tokens"] = *gauged->said.kv_tokens;
        if (gauged->said.kv_share) said["kv_share"] = *gauged->said.kv_share;
      }
    }
  });
  return list;
}

void AdminApi::post_worker(net::Exchange& exchange) {
  const auto refuse = [&](std::string param, std::string message) {
    answer_error(exchange, {400, std::move(message), "invalid_request_error", std::move(param), ""});
  };
  auto wanted = read_worker(exchange.body());
  if (!wanted) return answer_error(exchange, wanted.error());
  if (const auto known = workers_.standing_at(wanted->url)) {  // said once more
    if (known->role != wanted->role) {
      return answer_error(exchange, {409, fmt::format("worker {} stands there, in another role", known->id.value()),
                                     "invalid_request_error", "url", "worker_exists"});
    }
    return answer_json(exchange, 200, {{"id", std::to_string(known->id.value())}, {"status", "accepted"}});
  }
  if (const auto other = workers_.publishing_at(wanted->step_reports)) {
    return answer_error(exchange, {409, fmt::format("worker {}, which is ready, publishes there", other->value()),
                                   "invalid_request_error", "step_reports", "worker_exists"});
  }
  const auto id = workers_.add(*wanted, "");
  if (!id) {  // where: the key, which a policy follows with the flag that says the same
    const std::string& where = id.error().where;
    std::string key = where.substr(0, where.find(' '));
    const bool several = nlohmann::json::parse(exchange.body(), nullptr, false).contains("models");
    if (key == "models" && !several) key = "model_id";
    return refuse(std::move(key), id.error().message());
  }
  if (!wanted->url.empty()) {
    if (const auto listening = workers_.listen_to(*id); !listening) {
      workers_.remove(*id);
      return refuse("step_reports", listening.error().message());
    }
  }
  answer_json(exchange, 202, {{"id", std::to_string(id->value())}, {"status", "accepted"}});
}

void AdminApi::queue(net::Exchange& exchange) {
  constexpr const char* kDirect = "direct";
  if (exchange.method() == "PUT") {
    const auto body = nlohmann::json::parse(exchange.body(), nullptr, false);
    const auto found = body.is_object() ? body.find("mode") : body.end();
    const bool direct = found != body.end() && *found == kDirect;
    if (!direct && (found == body.end() || queueing_.empty() || *found != queueing_)) {
      return answer_error(exchange, {400,
                                     fmt::format("mode must be \"{}\" or the recipe's queue policy{}", kDirect,
                                                 queueing_.empty() ? "; it has none" : ", \"" + queueing_ + "\""),
                                     "invalid_request_error", "mode", ""});
    }
    control_.run_and_wait([&](control::FleetLoop& core, Instant now) { core.order_by_policy(!direct, now); });
  } else if (!only(exchange, {"GET", "PUT"})) {
    return;
  }
  nlohmann::ordered_json body;
  control_.run_and_wait([&](control::FleetLoop& core, Instant) {
    body = {{"mode", core.ordered_by_policy() && !queueing_.empty() ? queueing_ : kDirect},
            {"held", core.counts().held}};
  });
  answer_json(exchange, 200, body);
}

void AdminApi::plan(net::Exchange& exchange) {
  if (exchange.method() == "PUT") {
    std::int32_t classes = 1;
    control_.run_and_wait([&](control::FleetLoop& core, Instant) { classes = core.classes().size(); });
    const auto wanted = read_plan(exchange.body(), classes);
    if (!wanted) return answer_error(exchange, wanted.error());
    bool taken = false;
    control_.run_and_wait([&](control::FleetLoop&, Instant now) {
      taken = planners_.takes(*wanted, now);
      if (taken) control_.follow(*wanted, now);
    });
    if (!taken) {
      return answer_error(
          exchange, {409, "another planner was started later, and its plan holds until it has sent none for its lease",
                     "invalid_request_error", "planner", ""});
    }
    return answer_json(exchange, 200, {{"status", "in force"}});
  }
  if (!only(exchange, {"GET", "PUT"})) return;
  nlohmann::ordered_json body{{"weights", nlohmann::ordered_json::array()},
                              {"clocks", nlohmann::ordered_json::array()}};
  control_.run_and_wait([&](control::FleetLoop& core, Instant now) {
    for (const PoolWeight& w : core.weights()) {
      body["weights"].push_back({{"class", w.request_class.value()}, {"pool", w.pool.value()}, {"weight", w.weight}});
    }
    for (const ClockRange& range : control_.ranges()) {
      body["clocks"].push_back(
          {{"pool", range.pool.value()}, {"least_mhz", range.least.value()}, {"most_mhz", range.most.value()}});
    }
    if (!control_.ranges().empty()) {
      body["lease_left_ms"] = std::max(Span(), control_.ranges_until() - now).ns() / 1'000'000;
    }
    auto arrived = control_.arrived();
    arrived.resize(std::max(arrived.size(), static_cast<std::size_t>(core.classes().size())));
    body["arrived"] = arrived;
    if (clients_.stops()) body["stopping"] = true;
    body["turned_out"] = core.turned_out().rows();
    body["late"] = core.turned_out().late();
  });
  answer_json(exchange, 200, body);
}

void AdminApi::post_records(net::Exchange& exchange) {
  const auto records = read_planner_records(exchange.body(), net::steady_now());
  if (!records) return answer_error(exchange, records.error());
  InstanceId unknown = kNoInstance;
  control_.run_and_wait([&](control::FleetLoop&, Instant now) {
    for (const auto& r : *records) {
      if (r.decision.instance > workers_.newest()) unknown = r.decision.instance;
    }
    if (unknown != kNoInstance) return;
    for (const auto& r : *records) {
      const auto& d = r.decision;
      if (r.plan) {
        control_.planned({d.at, d.mode, *r.plan, d.value, r.flaw});
        continue;
      }
      control_.decided(d);
      const bool gone = d.kind == journal::DecisionKind::Phase && d.value == static_cast<int>(journal::Phase::Gone);
      if (!gone) continue;
      workers_.forget(d.instance, now);
    }
  });
  if (unknown != kNoInstance) {
    return answer_error(
        exchange, {400, fmt::format("there is no worker {}", unknown.value()), "invalid_request_error", "records", ""});
  }
  answer_json(exchange, 202, {{"taken", records->size()}});
}

void AdminApi::one_worker(net::Exchange& exchange, std::string_view text) {
  std::int32_t id = -1;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool number = ec == std::errc() && end == text.data() + text.size() && id >= 0;
  const auto found = number ? workers(id) : nlohmann::ordered_json::array();
  if (found.empty()) return answer_not_found(exchange);
  if (!only(exchange, {"GET", "PUT", "DELETE"})) return;
  if (method_of(exchange) == "GET") return answer_json(exchange, 200, found[0]);
  if (exchange.method() == "PUT") {
    std::string url;
    if (!exchange.body().empty()) {
      const auto body = nlohmann::json::parse(exchange.body(), nullptr, false);
      const auto given = body.is_object() ? body.find("url") : body.end();
      if (given == body.end() || !given->is_string()) {
        return answer_error(exchange, {400, "the body, if any, must be a JSON object with the string \"url\"",
                                       "invalid_request_error", "url", ""});
      }
      url = given->get<std::string>();
    }
    if (const auto other = workers_.other_at(InstanceId(id), url)) {
      return answer_error(exchange, {409, fmt::format("worker {} stands there", other->value()),
                                     "invalid_request_error", "url", "worker_exists"});
    }
    if (const auto taken = workers_.take_back(InstanceId(id), url); !taken) {
      return answer_error(exchange, {400, taken.error().message(), "invalid_request_error", "url", ""});
    }
    return answer_json(exchange, 202, {{"id", std::to_string(id)}, {"status", "accepted"}});
  }
  workers_.remove(InstanceId(id));
  answer_json(exchange, 202, {{"id", std::to_string(id)}, {"status", "draining"}});
}

}  // namespace wattle::gateway
