#include "gateway/client_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "gateway/answers.h"
#include "net/clock.h"

namespace wattle::gateway {

namespace {
nlohmann::ordered_json model_json(const std::string& name) {
  return {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "wattle"}};
}
/// What a request says of itself beside its tenant. What is wrong with it; empty: nothing.
std::string read_service_headers(const net::Exchange& exchange, const GatewayOptions& options, Request& request) {
  const auto position = [](const auto& list, std::string_view name) -> std::optional<std::int32_t> {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].name == name) return static_cast<std::int32_t>(i);
    }
    return std::nullopt;
  };
  if (const auto name = exchange.headers().get("X-Wattle-Tier"); !name.empty()) {
    const auto found = options.service.objectives ? position(options.service.objectives->tiers(), name) : std::nullopt;
    if (!found) return "X-Wattle-Tier must be the name of a tier of this service";
    request.tier = TierId(*found);
  }
  if (const auto name = exchange.headers().get("X-Wattle-Origin"); !name.empty()) {
    const auto found = position(options.sites, name);
    if (!found) return "X-Wattle-Origin must be the name of a site of this service";
    request.origin = SiteId(*found);
  }
  if (const auto text = exchange.headers().get("X-Wattle-Priority"); !text.empty()) {
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), request.priority);
    if (ec != std::errc() || end != text.data() + text.size()) return "X-Wattle-Priority must be a whole number";
  }
  return "";
}

}  // namespace

void ClientApi::handle(const std::shared_ptr<net::Exchange>& exchange, RelayContext& context) {
  const std::string_view path = exchange->path();
  if (path == "/v1/chat/completions") return complete(exchange, context, net::ApiPath::Chat);
  if (path == "/v1/completions") return complete(exchange, context, net::ApiPath::Completions);
  if (path == "/v1/models") {
    if (!allowed(*exchange, "GET")) return;
    return models(*exchange);
  }
  if (path.starts_with("/v1/models/")) {
    if (!allowed(*exchange, "GET")) return;
    return one_model(*exchange, path.substr(11));
  }
  if (path == "/health") {
    if (!allowed(*exchange, "GET")) return;
    return health(*exchange);
  }
  metrics_.answered(404);
  answer_not_found(*exchange);
}

bool ClientApi::allowed(net::Exchange& exchange, std::string_view method) {
  if (only(exchange, method)) return true;
  metrics_.answered(405);
  return false;
}

void ClientApi::complete(const std::shared_ptr<net::Exchange>& exchange, RelayContext& context, net::ApiPath path) {
  if (!allowed(*exchange, "POST")) return;
  const auto refuse = [&](const net::ApiError& error) {
    metrics_.answered(error.status);
    answer_error(*exchange, error);
  };
  auto asked = net::read_completion(path, exchange->body());
  if (!asked) return refuse(asked.error());
  const auto model = std::ranges::find(options_.models, asked->model);
  if (model == options_.models.end()) {
    return refuse({404, fmt::format("the model `{}` does not exist", asked->model), "invalid_request_error", "model",
                   "model_not_found"});
  }
  if (workers_.disaggregated() && asked->n > 1) {
    return refuse({400, "n > 1 is not supported with prefill/decode disaggregation: a KV handle has one consumer",
                   "invalid_request_error", "n", "unsupported_value"});
  }
  // They say where an engine connects to: from a client, to anywhere.
  if (!asked->reserved_field.empty()) {
    return refuse({400, asked->reserved_field + " is set by the gateway", "invalid_request_error",
                   asked->reserved_field, "unsupported_value"});
  }
  Request request;
  request.id = RequestId(next_id_.fetch_add(1, std::memory_order_relaxed));
  request.arrival = net::steady_now();
  request.prompt_tokens = asked->prompt_tokens;
  request.max_tokens = asked->max_tokens > 0 ? asked->max_tokens : options_.default_max_tokens;
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
  const auto tenant = tenants_.id_of(exchange->headers().get("X-Wattle-Tenant"));
  if (!tenant) return refuse({400, tenant.error(), "invalid_request_error", "X-Wattle-Tenant", ""});
  request.tenant = *tenant;
  if (const Tenant* known = tenants_.known(*tenant)) known->apply_to(request);
  if (const std::string problem = read_service_headers(*exchange, options_, request); !problem.empty()) {
    return refuse({400, problem, "invalid_request_error", "", ""});
  }
  if (!hint("X-Wattle-Predicted-Output-Tokens", request.predicted_output_tokens)) return;
  const carbon::ModelId model_id(static_cast<std::int32_t>(model - options_.models.begin()));
  std::make_shared<Relay>(context, exchange, *asked, request, model_id)->start();
}

void ClientApi::models(net::Exchange& exchange) {
  nlohmann::ordered_json body{{"object", "list"}, {"data", nlohmann::ordered_json::array()}};
  for (const auto& name : options_.models) body["data"].push_back(model_json(name));
  answer_json(exchange, 200, body);
}

void ClientApi::one_model(net::Exchange& exchange, std::string_view id) {
  const auto found = std::ranges::find(options_.models, id);  // names may hold slashes, as Hugging Face's do
  if (found != options_.models.end()) return answer_json(exchange, 200, model_json(*found));
  metrics_.answered(404);
  answer_error(exchange, {404, fmt::format("the model `{}` does not exist", id), "invalid_request_error", "model",
                          "model_not_found"});
}

void ClientApi::health(net::Exchange& exchange) {
  bool ready = false;
  control_.run_and_wait([&](control::FleetLoop& core, Instant) { ready = core.ready(); });
  if (ready && !stopping_) {
    // Requests are served all the same: a balancer must not turn away from us because of a disk.
    const std::string journal = options_.journal ? options_.journal().problem : "";
    if (journal.empty()) return answer_json(exchange, 200, {{"status", "ok"}});
    return answer_json(exchange, 200, {{"status", "degraded"}, {"journal", journal}});
  }
  answer_error(exchange, {503, "no instance is ready", "service_unavailable_error", "", "not_ready"},
               "Retry-After: 1\r\n");
}

}  // namespace wattle::gateway
