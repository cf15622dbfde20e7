#include "node/agent_api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "journal/names.h"
#include "journal/slo_json.h"
#include "net/answers.h"
#include "net/browser.h"
#include "net/clock.h"

namespace wattle::node {

namespace {

constexpr std::string_view kJson = "application/json";
/// Longer leases would leave a clock low for long after its decider has died.
constexpr Span kLongestLease = Span::s(60);
constexpr double kMostWatts = 1e6;
constexpr std::int64_t kMostTokens = 1'000'000'000'000;

/// The number after `key` in a query; none: it is not there.
std::optional<std::int64_t> number_in(std::string_view query, std::string_view key) {
  for (std::size_t at = 0; at <= query.size();) {
    const std::string_view part = query.substr(at, query.find('&', at) - at);
    at += part.size() + 1;
    std::int64_t value = 0;
    if (part.starts_with(key) &&
        std::from_chars(part.data() + key.size(), part.data() + part.size(), value).ec == std::errc()) {
      return value;
    }
  }
  return std::nullopt;
}

/// A reading of the engine's meters; null if they cannot be read.
nlohmann::ordered_json known(const Agent::EngineStatus& engine, std::int64_t value) {
  return engine.metered ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

std::string engines_json(const Agent& agent, std::int64_t after, std::optional<std::int64_t> steps) {
  nlohmann::ordered_json body;
  body["started_unix_us"] = agent.started_unix_us();
  const auto engines = agent.engines();
  auto& list = body["engines"] = nlohmann::ordered_json::array();
  for (const auto& e : engines) {
    list.push_back({{"engine", e.endpoint},
                    {"gpus", e.gpus},
                    {"energy_uj", known(e, static_cast<std::int64_t>(e.energy.value() / 1'000'000))},
                    {"power_mw", known(e, e.power.value())},
                    {"clock_mhz", known(e, std::int64_t{e.clock.value()})},
                    {"commanded_mhz", e.commanded.value()},
                    {"leased", e.leased},
                    {"emulated", e.emulated}});
    if (e.pool) list.back()["pool"] = e.pool->value();
    if (e.ceiling != MegaHertz(0)) list.back()["ceiling_mhz"] = e.ceiling.value();
    if (e.bounds) {
      list.back()["least_mhz"] = e.bounds->least.value();
      list.back()["most_mhz"] = e.bounds->most.value();
    }
    if (e.objectives) list.back()["objectives"] = nlohmann::ordered_json::parse(journal::slo_text(*e.objectives));
  }
  if (!agent.facts().empty()) body["facts"] = agent.facts();
  const auto batch = agent.decisions(after);
  body["next"] = batch.next;
  body["now_ns"] = net::steady_now().ns();
  auto& decisions = body["decisions"] = nlohmann::ordered_json::array();
  for (const auto& record : batch.items) {
    if (record.kind != journal::DecisionKind::Clock) continue;
    const auto engine = std::ranges::find(engines, record.instance, &Agent::EngineStatus::instance);
    if (engine == engines.end()) continue;
    decisions.push_back({{"at_ns", record.at.ns()},
                         {"engine", engine->endpoint},
                         {"mode", journal::name_of(record.mode)},
                         {"clock_mhz", record.value},
                         {"reason", record.reason}});
  }
  if (!steps) return body.dump();
  const auto measured = agent.measured(*steps);
  body["next_step"] = measured.next;
  auto& list_of_steps = body["steps"] = nlohmann::ordered_json::array();
  for (const auto& m : measured.items) {
    const auto engine = std::ranges::find(engines, m.instance, &Agent::EngineStatus::instance);
    if (engine == engines.end()) continue;
    const StepShape& shape = m.step.shape;
    list_of_steps.push_back({{"engine", engine->endpoint},
                             {"clock_mhz", m.step.clock.value()},
                             {"duration_ns", m.step.duration.ns()},
                             {"decode_requests", shape.decode_requests},
                             {"decode_kv_tokens", shape.decode_kv_tokens},
                             {"prefill_requests", shape.prefill_requests},
                             {"prefill_tokens", shape.prefill_tokens},
                             {"prefill_context_tokens", shape.prefill_context_tokens}});
  }
  return body.dump();
}

/// A whole number within the bounds.
std::optional<std::int64_t> whole(const nlohmann::json& body, const char* key, std::int64_t least, std::int64_t most) {
  const auto found = body.is_object() ? body.find(key) : body.end();
  if (found == body.end() || !found->is_number_integer()) return std::nullopt;
  const auto value = found->get<std::int64_t>();
  return value < least || value > most ? std::nullopt : std::optional(value);
}

std::optional<Span> lease_of(const nlohmann::json& body, net::Exchange& exchange) {
  const auto lease = whole(body, "lease_ms", 1, kLongestLease.ns() / 1'000'000);
  if (lease) return Span::ms(*lease);
  answer_problem(exchange, 400,
                 fmt::format("lease_ms must be a whole number from 1 to {:.0f}", kLongestLease.millis()));
  return std::nullopt;
}

/// Errors: not a short text.
std::optional<std::string> gateway_of(const nlohmann::json& body, net::Exchange& exchange) {
  constexpr std::size_t kLongest = 128;
  const auto said = body.find("gateway");
  if (said == body.end()) return "";
  if (said->is_string() && said->get_ref<const std::string&>().size() <= kLongest) return said->get<std::string>();
  answer_problem(exchange, 400, fmt::format("gateway must be a text of at most {} bytes", kLongest));
  return std::nullopt;
}

/// Of a message that an agent does not obey. `not_leased`: why a known engine is refused if it has one gateway.
void answer_refusal(net::Exchange& exchange, const Agent::LeaseRefusal& refused, std::string_view not_leased) {
  if (!refused.known) return answer_problem(exchange, 404, "no engine here reports at " + refused.engine);
  if (!refused.rival) return answer_problem(exchange, 409, refused.engine + std::string(not_leased));
  answer_problem(exchange, 409,
                 fmt::format("{} is commanded by another gateway, too ({}); an engine obeys one", refused.engine,
                             refused.rival->empty() ? "without a name" : *refused.rival));
}

/// Applies a plan: pools of engines, the bounds of their clocks, and their objectives.
void take_plan(Agent& agent, net::Exchange& exchange) {
  const auto body = nlohmann::json::parse(exchange.body(), nullptr, false);
  if (!body.is_object()) return answer_problem(exchange, 400, "the body must be a JSON object");
  const auto lease = lease_of(body, exchange);
  if (!lease) return;
  const auto gateway = gateway_of(body, exchange);
  if (!gateway) return;
  const auto engines = body.find("engines");
  if (engines == body.end() || !engines->is_array()) return answer_problem(exchange, 400, "engines must be an array");
  std::vector<Agent::Placed> wanted;
  for (const auto& item : *engines) {
    const auto engine = item.is_object() ? item.find("engine") : item.end();
    const auto pool = whole(item, "pool", 0, 1'000'000);
    const bool bounded = item.is_object() && (item.contains("least_mhz") || item.contains("most_mhz"));
    const auto least = whole(item, "least_mhz", 1, 100'000);
    const auto most = whole(item, "most_mhz", 1, 100'000);
    if (engine == item.end() || !engine->is_string() || !pool || (bounded && (!least || !most || *least > *most))) {
      return answer_problem(
          exchange, 400,
          R"(each of engines must be {"engine": ENDPOINT, "pool": ID}, with "least_mhz" <= "most_mhz" where )"
          "its clocks are bounded");
    }
    Agent::Placed placed{engine->get<std::string>(), PoolId(static_cast<std::int32_t>(*pool)), {}, {}};
    if (bounded) {
      placed.bounds = ClockRange{placed.pool, MegaHertz(static_cast<std::int32_t>(*least)),
                                 MegaHertz(static_cast<std::int32_t>(*most))};
    }
    if (const auto objectives = item.find("objectives"); objectives != item.end()) {
      const auto slo = journal::parse_slo(objectives->dump());
      if (!slo) return answer_problem(exchange, 400, slo.error().message());
      placed.objectives = *slo;
    }
    wanted.push_back(std::move(placed));
  }
  if (const auto refused = agent.place(wanted, {*gateway, *lease})) {
    return answer_refusal(exchange, *refused, "'s clock is leased: bound it where it is decided");
  }
  exchange.respond(200, kJson, "{}");
}

/// The engine that an item of a list refers to.
std::optional<std::string> engine_of(const nlohmann::json& item) {
  if (!item.is_object() || !item.contains("engine") || !item["engine"].is_string()) return std::nullopt;
  return item["engine"].get<std::string>();
}

/// Waits of requests between two engines; none if malformed.
std::optional<std::vector<Agent::HandedOver>> read_handed_over(const nlohmann::json& items) {
  if (!items.is_array()) return std::nullopt;
  constexpr std::int64_t kMostUs = std::int64_t{24} * 3'600 * 1'000'000;
  std::vector<Agent::HandedOver> all;
  for (const auto& item : items) {
    const auto engine = engine_of(item);
    if (!engine) return std::nullopt;
    const auto age = whole(item, "age_us", 0, kMostUs);
    const auto wait = whole(item, "wait_us", 0, kMostUs);
    if (!age || !wait) return std::nullopt;
    all.push_back({*engine, Span::us(*age), Span::us(*wait)});
  }
  return all;
}

/// Requests that have ended; none when it is not in that form.
std::optional<std::vector<Agent::Finished>> read_finished(const nlohmann::json& items) {
  if (!items.is_array()) return std::nullopt;
  constexpr std::int64_t kMost = 1'000'000;
  std::vector<Agent::Finished> all;
  for (const auto& item : items) {
    const auto engine = engine_of(item);
    if (!engine) return std::nullopt;
    const auto request_class = whole(item, "class", 0, std::numeric_limits<std::int32_t>::max());
    const auto requests = whole(item, "requests", 0, kMost);
    const auto late = whole(item, "late", 0, kMost);
    if (!request_class || !requests || !late || *late > *requests) return std::nullopt;
    all.push_back({*engine, ClassId(static_cast<std::int32_t>(*request_class)), *requests, *late});
  }
  return all;
}

/// Work that an engine has finished (Delivered); none if malformed.
std::optional<Delivered> read_delivered(const nlohmann::json& said) {
  if (!said.is_object()) return std::nullopt;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 1'000;
  constexpr std::array kKeys{"prompts", "prompt_tokens", "waits_us", "computing_us", "tokens", "gaps_us"};
  std::array<std::int64_t, kKeys.size()> n{};
  for (std::size_t k = 0; k < n.size(); ++k) {
    const auto value = whole(said, kKeys[k], 0, kMost);
    if (!value) return std::nullopt;
    n[k] = *value;
  }
  return Delivered{n[0], n[1], Span::us(n[2]), Span::us(n[3]), n[4], Span::us(n[5])};
}

/// Requests that the gateway has sent to engines; none if malformed.
std::optional<std::vector<Agent::Work>> read_work(const nlohmann::json& items) {
  if (!items.is_array()) return std::nullopt;
  const Instant now = net::steady_now();
  std::vector<Agent::Work> all;
  for (const auto& item : items) {
    const auto engine = engine_of(item);
    if (!engine) return std::nullopt;
    constexpr std::array kKeys{"requests",  "context_tokens", "prompts",          "prompt_tokens",
                               "oldest_us", "computing",      "computing_tokens", "computing_us"};
    std::array<std::int64_t, kKeys.size()> n{};
    for (std::size_t k = 0; k < n.size(); ++k) {
      const auto found = item.find(kKeys[k]);
      if (found == item.end() || !found->is_number_integer()) return std::nullopt;
      n[k] = found->get<std::int64_t>();
      if (n[k] < 0 || n[k] > kMostTokens) return std::nullopt;
    }
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    const std::int64_t output =
        item.contains("output_tokens") ? whole(item, "output_tokens", 0, kMostTokens).value_or(-1) : 0;
    if (output < 0) return std::nullopt;
    control::InstanceWork work;
    work.output_tokens = output;
    const auto delivered = item.contains("delivered") ? read_delivered(item["delivered"]) : Delivered{};
    if (!delivered) return std::nullopt;
    work.delivered = *delivered;
    work.requests = static_cast<std::int32_t>(std::min(n[0], kMost));
    work.context_tokens = n[1];
    work.prompts = static_cast<std::int32_t>(std::min(n[2], kMost));
    work.prompt_tokens = n[3];
    if (work.prompts > 0) work.oldest = now - Span::us(n[4]);
    work.computing = static_cast<std::int32_t>(std::min(n[5], n[2]));
    work.computing_tokens = std::min(n[6], n[3]);
    if (work.computing > 0) work.computing_since = now - Span::us(n[7]);
    all.push_back({*engine, work});
  }
  return all;
}

void take_clocks(Agent& agent, net::Exchange& exchange) {
  const auto body = nlohmann::json::parse(exchange.body(), nullptr, false);
  if (!body.is_object()) return answer_problem(exchange, 400, "the body must be a JSON object");
  const auto lease = lease_of(body, exchange);
  if (!lease) return;
  const auto gateway = gateway_of(body, exchange);
  if (!gateway) return;
  const auto clocks = body.find("clocks");
  if (clocks == body.end() || !clocks->is_array()) return answer_problem(exchange, 400, "clocks must be an array");
  std::vector<Agent::LeasedClock> wanted;
  for (const auto& item : *clocks) {
    const auto engine = item.is_object() ? item.find("engine") : item.end();
    const auto clock = item.is_object() ? item.find("clock_mhz") : item.end();
    if (engine == item.end() || !engine->is_string() || clock == item.end() || !clock->is_number_integer() ||
        clock->get<std::int64_t>() < 1 || clock->get<std::int64_t>() > 100'000) {
      return answer_problem(exchange, 400, R"(each of clocks must be {"engine": ENDPOINT, "clock_mhz": MHZ})");
    }
    wanted.push_back({engine->get<std::string>(), MegaHertz(clock->get<std::int32_t>())});
  }
  const auto work = read_work(body.value("work", nlohmann::json::array()));
  if (!work) {
    return answer_problem(
        exchange, 400,
        R"(each of work must be {"engine": ENDPOINT} with requests, context_tokens, prompts, prompt_tokens, )"
        "oldest_us, computing, computing_tokens and computing_us, whole numbers from 0, and delivered an object of "
        "such numbers");
  }
  const auto handed_over = read_handed_over(body.value("handed_over", nlohmann::json::array()));
  if (!handed_over) {
    return answer_problem(exchange, 400,
                          R"(each of handed_over must be {"engine": ENDPOINT} with age_us and wait_us from 0)");
  }
  const auto finished = read_finished(body.value("finished", nlohmann::json::array()));
  if (!finished) {
    return answer_problem(
        exchange, 400,
        R"(each of finished must be {"engine": ENDPOINT} with class, requests and late of them, from 0)");
  }
  std::set<std::string> named;
  for (const auto& one : *work) named.insert(one.engine);
  for (const auto& one : *handed_over) named.insert(one.engine);
  for (const auto& one : *finished) named.insert(one.engine);
  if (const auto refused = agent.lease(wanted, named, {*gateway, *lease})) {
    return answer_refusal(exchange, *refused, " follows this agent's own recipe; its clock is not leased");
  }
  agent.work(*work);
  agent.handed_over(*handed_over);
  agent.finished(*finished);
  exchange.respond(200, kJson, "{}");
}

const char* name_of(policy::WattBudget::State state) {
  using State = policy::WattBudget::State;
  switch (state) {
    case State::Unbounded:
      return "unbounded";
    case State::Kept:
      return "kept";
    case State::Over:
      return "over";
    case State::Unreachable:
      return "unreachable";
  }
  return "unbounded";
}

std::string budget_json(const Agent& agent) {
  const auto budget = agent.budget();
  nlohmann::ordered_json body;
  body["watts"] =
      budget.watts ? nlohmann::ordered_json(to_watts(budget.watts.value()).value()) : nlohmann::ordered_json();
  body["drawn_w"] = to_watts(budget.drawn).value();
  body["state"] = name_of(budget.state);
  body["level"] = budget.level;
  body["periods_over"] = budget.over;
  auto& ceilings = body["ceilings_mhz"] = nlohmann::ordered_json::object();
  for (const auto& [uuid, ceiling] : budget.ceilings) {
    ceilings[uuid] = ceiling == MegaHertz(0) ? nlohmann::ordered_json() : nlohmann::ordered_json(ceiling.value());
  }
  return body.dump();
}

void take_budget(Agent& agent, net::Exchange& exchange) {
  const auto body = nlohmann::json::parse(exchange.body(), nullptr, false);
  const auto watts = body.is_object() ? body.find("watts") : body.end();
  const bool none = body.is_object() && watts != body.end() && watts->is_null();
  if (!none && (!body.is_object() || watts == body.end() || !watts->is_number() || watts->get<double>() < 1.0 ||
                watts->get<double>() > kMostWatts)) {
    return answer_problem(exchange, 400, R"(the body must be {"watts": W}, from 1 to 1000000, or null for no budget)");
  }
  const auto set = agent.set_budget(none ? std::nullopt : std::optional(to_milliwatts(Watts(watts->get<double>()))));
  if (!set) return answer_problem(exchange, 400, set.error().message());
  exchange.respond(200, kJson, budget_json(agent));
}

}  // namespace

void answer(Agent& agent, net::Exchange& exchange, const std::function<std::string()>& more_metrics) {
  if (net::refused_as_page(exchange) || net::refused_as_too_deep(exchange)) return;
  const auto path = exchange.path();
  if (path == "/metrics") {
    if (only(exchange, {"GET"})) {
      exchange.respond(200, "text/plain; version=0.0.4", agent.metrics() + (more_metrics ? more_metrics() : ""));
    }
  } else if (path == "/health") {
    if (!agent.ready()) return exchange.respond(503, "text/plain", "stale\n");
    const auto unread = agent.unread();
    exchange.respond(200, "text/plain",
                     unread.empty() ? "ready\n" : fmt::format("degraded: cannot read {}\n", fmt::join(unread, ", ")));
  } else if (path == "/engines") {
    if (!only(exchange, {"GET"})) return;
    const std::string_view query = exchange.target().substr(std::min(path.size() + 1, exchange.target().size()));
    std::int64_t after = number_in(query, "after=").value_or(0);
    auto steps = number_in(query, "steps=");
    if (const auto of = number_in(query, "of="); of && *of != agent.started_unix_us()) {
      after = 0;
      if (steps) steps = 0;
    }
    exchange.respond(200, kJson, engines_json(agent, after, steps));
  } else if (path == "/clocks") {
    if (only(exchange, {"POST"})) take_clocks(agent, exchange);
  } else if (path == "/plan") {
    if (only(exchange, {"POST"})) take_plan(agent, exchange);
  } else if (path == "/budget") {
    if (!only(exchange, {"GET", "POST"})) return;
    if (method_of(exchange) == "GET") return exchange.respond(200, kJson, budget_json(agent));
    take_budget(agent, exchange);
  } else {
    answer_problem(exchange, 404,
                   "no such path; GET /metrics, /health, /engines or /budget; POST /clocks, /plan or /budget");
  }
}

}  // namespace wattle::node
