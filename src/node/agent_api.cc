#include "node/agent_api.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "journal/names.h"
#include "net/clock.h"

namespace wattle::node {

namespace {

constexpr std::string_view kJson = "application/json";
/// Longer leases would leave a clock low for long after its decider has died.
constexpr Span kLongestLease = Span::s(60);

void refuse(net::Exchange& exchange, int status, const std::string& what) {
  exchange.respond(status, kJson, nlohmann::json{{"error", {{"message", what}}}}.dump());
}

std::string engines_json(const Agent& agent, std::int64_t after) {
  nlohmann::ordered_json body;
  const auto engines = agent.engines();
  auto& list = body["engines"] = nlohmann::ordered_json::array();
  for (const auto& e : engines) {
    list.push_back({{"engine", e.endpoint},
                    {"gpus", e.gpus},
                    {"energy_uj", static_cast<std::int64_t>(e.energy.value() / 1'000'000)},
                    {"power_mw", e.power.value()},
                    {"clock_mhz", e.clock.value()},
                    {"commanded_mhz", e.commanded.value()},
                    {"leased", e.leased},
                    {"emulated", e.emulated}});
  }
  const auto batch = agent.decisions(after);
  body["next"] = batch.next;
  body["now_ns"] = net::steady_now().ns();
  auto& decisions = body["decisions"] = nlohmann::ordered_json::array();
  for (const auto& record : batch.records) {
    if (record.kind != journal::DecisionKind::Clock) continue;
    const auto engine = std::ranges::find(engines, record.instance, &Agent::EngineStatus::instance);
    if (engine == engines.end()) continue;
    decisions.push_back({{"at_ns", record.at.ns()},
                         {"engine", engine->endpoint},
                         {"mode", journal::name_of(record.mode)},
                         {"clock_mhz", record.value},
                         {"reason", record.reason}});
  }
  return body.dump();
}

void take_clocks(Agent& agent, net::Exchange& exchange) {
  const auto body = nlohmann::json::parse(exchange.body(), nullptr, false);
  if (!body.is_object()) return refuse(exchange, 400, "the body must be a JSON object");
  const auto lease = body.find("lease_ms");
  if (lease == body.end() || !lease->is_number_integer() || lease->get<std::int64_t>() < 1 ||
      lease->get<std::int64_t>() > kLongestLease.ns() / 1'000'000) {
    return refuse(exchange, 400,
                  fmt::format("lease_ms must be a whole number from 1 to {:.0f}", kLongestLease.millis()));
  }
  const auto clocks = body.find("clocks");
  if (clocks == body.end() || !clocks->is_array()) return refuse(exchange, 400, "clocks must be an array");
  std::vector<Agent::LeasedClock> wanted;
  for (const auto& item : *clocks) {
    const auto engine = item.is_object() ? item.find("engine") : item.end();
    const auto clock = item.is_object() ? item.find("clock_mhz") : item.end();
    if (engine == item.end() || !engine->is_string() || clock == item.end() || !clock->is_number_integer() ||
        clock->get<std::int64_t>() < 1 || clock->get<std::int64_t>() > 100'000) {
      return refuse(exchange, 400, R"(each of clocks must be {"engine": ENDPOINT, "clock_mhz": MHZ})");
    }
    wanted.push_back({engine->get<std::string>(), MegaHertz(clock->get<std::int32_t>())});
  }
  const auto refused = agent.lease(wanted, Span::ms(lease->get<std::int64_t>()));
  if (!refused) return exchange.respond(200, kJson, "{}");
  if (refused->known) {
    return refuse(exchange, 409, refused->engine + " follows this agent's own recipe; its clock is not leased");
  }
  refuse(exchange, 404, "no engine here reports at " + refused->engine);
}

}  // namespace

void answer(Agent& agent, net::Exchange& exchange) {
  const auto path = exchange.path();
  const bool get = exchange.method() == "GET" || exchange.method() == "HEAD";
  const auto only = [&](bool right, const char* method) {
    if (!right) refuse(exchange, 405, fmt::format("use {}", method));
    return right;
  };
  if (path == "/metrics") {
    if (only(get, "GET")) exchange.respond(200, "text/plain; version=0.0.4", agent.metrics());
  } else if (path == "/health") {
    const bool ready = agent.ready();
    exchange.respond(ready ? 200 : 503, "text/plain", ready ? "ready\n" : "stale\n");
  } else if (path == "/engines") {
    if (!only(get, "GET")) return;
    std::int64_t after = 0;
    const std::string_view query = exchange.target().substr(std::min(path.size() + 1, exchange.target().size()));
    if (query.starts_with("after=")) std::from_chars(query.data() + 6, query.data() + query.size(), after);
    exchange.respond(200, kJson, engines_json(agent, after));
  } else if (path == "/clocks") {
    if (only(exchange.method() == "POST", "POST")) take_clocks(agent, exchange);
  } else {
    exchange.respond(404, "text/plain", "GET /metrics, /health or /engines; POST /clocks\n");
  }
}

}  // namespace wattle::node
