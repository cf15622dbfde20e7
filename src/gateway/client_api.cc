#include "gateway/client_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gateway/relay_fields.h"
#include "net/answers.h"
#include "net/clock.h"
#include "net/form.h"
#include "net/log.h"

namespace wattle::gateway {

namespace {
nlohmann::ordered_json model_json(const std::string& name) {
  return {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "wattle"}};
}

/// What engines answer beside texts. The rest of their paths is for operators: adapters, caches,
/// weights.
constexpr std::array<std::string_view, 14> kPassed{"/v1/messages/count_tokens",
                                                   "/v1/embeddings",
                                                   "/v1/audio/transcriptions",
                                                   "/v1/audio/translations",
                                                   "/v1/audio/speech",
                                                   "/v1/images/generations",
                                                   "/v1/rerank",
                                                   "/v1/score",
                                                   "/tokenize",
                                                   "/detokenize",
                                                   "/rerank",
                                                   "/score",
                                                   "/pooling",
                                                   "/classify"};
/// By which other gateways bind a conversation to an engine: llm-d's, Claude Code's, SMG's.
constexpr const char* kSessionHeaders[] = {"X-Session-ID", "X-Session-Token", "X-Session-Affinity",
                                           "X-Claude-Code-Session-ID", "X-SMG-Routing-Key"};
/// They cost no GPU anything.
bool computes_nothing(std::string_view path) {
  return path == "/tokenize" || path == "/detokenize" || path == "/v1/messages/count_tokens";
}
/// Why several answers would need the KV of one hand-over, which one decode leg consumes. SGLang's contract hands each
/// prompt over in a room of its own.
struct Shared {
  std::string_view field = {};  ///< of the request; empty: they would not
  std::string_view what = {};
};
Shared shared_kv(const net::CompletionRequest& asked, PdContract contract) {
  if (asked.n > 1) return {"n", "n > 1 is"};
  if (asked.best_of > 1) return {"best_of", "best_of > 1 is"};
  if (asked.prompts > 1 && contract == PdContract::Nixl) return {"prompt", "several prompts in one request are"};
  return {};
}
}  // namespace

void ClientApi::handle(const std::shared_ptr<net::Exchange>& exchange, RelayContext& context) {
  if (came_back(*exchange) || crossed(*exchange)) return;
  const std::string_view path = exchange->path();
  if (path == "/v1/chat/completions") return complete(exchange, context, net::ApiPath::Chat);
  if (path == "/v1/completions") return complete(exchange, context, net::ApiPath::Completions);
  if (path == "/v1/responses" || path == "/v1/messages") return complete(exchange, context, net::ApiPath::Typed);
  if (path == "/v1/models" || path.starts_with("/v1/models/")) {
    if (!allowed(*exchange, "GET") || !caller_of({*exchange})) return;
    return path == "/v1/models" ? models(*exchange) : one_model(*exchange, net::percent_decoded(path.substr(11)));
  }
  if (path == "/health") {
    if (!allowed(*exchange, "GET")) return;
    return health(*exchange);
  }
  if (passes(path)) return complete(exchange, context, net::ApiPath::Other);
  metrics_.answered(404);
  answer_not_found(*exchange);
}

bool ClientApi::passes(std::string_view path) const {
  // What an engine might read as another path than it looks like is none that a '*' stands for.
  const bool plain = path.find("..") == std::string_view::npos &&
                     path.find_first_of("%\\;") == std::string_view::npos && path.find("//") == std::string_view::npos;
  return std::ranges::find(kPassed, path) != kPassed.end() ||
         std::ranges::any_of(options_.pass_paths, [path, plain](std::string_view known) {
           return known.ends_with('*') ? plain && path.starts_with(known.substr(0, known.size() - 1)) : path == known;
         });
}

bool ClientApi::allowed(net::Exchange& exchange, std::string_view method) {
  if (only(exchange, {method, "OPTIONS"})) return true;
  metrics_.answered(405);
  return false;
}

bool ClientApi::came_back(net::Exchange& exchange) {
  if (!was_sent_by(exchange.headers(), options_.via)) return false;
  constexpr const char* kWhat = "a worker of this gateway leads back to this gateway";
  if (!loop_said_.exchange(true)) net::log_line(net::LogLevel::Error, kWhat);
  metrics_.answered(508);
  answer_error(exchange, {508, kWhat, "server_error", "", "loop_detected"});
  return true;
}

bool ClientApi::crossed(net::Exchange& exchange) {
  const std::string_view origin = exchange.headers().get("Origin");
  const auto& known = options_.cors_origins;
  const bool all = std::ranges::find(known, "*") != known.end();
  if (!origin.empty() && (all || std::ranges::find(known, origin) != known.end())) {
    exchange.add_headers(
        fmt::format("Access-Control-Allow-Origin: {}\r\n{}", all ? "*" : origin, all ? "" : "Vary: Origin\r\n"));
    exchange.add_headers(
        "Access-Control-Expose-Headers: Retry-After, X-Request-Id, X-Wattle-Carbon-G, "
        "X-Wattle-Energy-J, X-Wattle-Energy-Meters\r\n");
    if (exchange.method() == "OPTIONS") {
      exchange.add_headers("Access-Control-Allow-Methods: GET, POST\r\nAccess-Control-Max-Age: 600\r\n");
      if (const auto asked = exchange.headers().get("Access-Control-Request-Headers"); !asked.empty()) {
        exchange.add_headers(fmt::format("Access-Control-Allow-Headers: {}\r\n", asked));
      }
    }
  }
  if (exchange.method() != "OPTIONS") return false;
  metrics_.answered(204);
  exchange.respond(204, "", "", "Allow: GET, HEAD, POST, OPTIONS\r\n");
  return true;
}

void ClientApi::refuse(const Incoming& in, const net::ApiError& error, std::string_view extra) {
  metrics_.answered(error.status);
  if (in.record) {
    in.record->status = error.status;
    in.record->fate = Fate::Rejected;
    in.record->reason = error.message;
    in.record->left = net::steady_now();
    in.observer->over(in.record);
    in.exchange.add_headers("X-Request-Id: " + in.record->name + "\r\n");  // by which the log has it
  }
  answer_error(in.exchange, error, extra);
}

std::optional<Caller> ClientApi::caller_of(const Incoming& in) {
  auto caller = callers_.who(in.exchange.headers(), in.exchange.kept());
  if (caller) return std::move(*caller);
  refuse(in, caller.error(), caller.error().status == 401 ? "WWW-Authenticate: Bearer\r\n" : "");
  return std::nullopt;
}

std::optional<ClientApi::Asked> ClientApi::read(const Incoming& in, net::ApiPath path) {
  net::Exchange& exchange = in.exchange;
  const auto no = [&](const net::ApiError& error) {
    refuse(in, error);
    return std::nullopt;
  };
  if (const auto coding = exchange.headers().get("Content-Encoding"); !coding.empty() && coding != "identity") {
    refuse(in,
           {415, fmt::format("bodies are read as they are, not as {}", coding), "invalid_request_error",
            "Content-Encoding", "unsupported_encoding"},
           "Accept-Encoding: identity\r\n");
    return std::nullopt;
  }
  auto asked = net::read_completion(path, exchange.body());
  if (!asked && net::is_completion(path)) return no(asked.error());
  if (!asked) {
    const std::string_view type = exchange.headers().get("Content-Type");
    // What an engine's lenient reader takes for JSON has been read here, or goes no further.
    if (!net::is_no_json(type) || net::begins_like_json(exchange.body())) return no(asked.error());
    asked.emplace();
    asked->path = path;
    asked->prompt.media = 1;
    asked->model = net::form_field(type, exchange.body(), "model").value_or("");
  }
  if (in.record) {
    in.record->model = asked->model;
    in.record->stream = asked->stream;
    in.record->max_tokens = asked->max_tokens;
  }
  const bool one = asked->model.empty() && options_.models.size() == 1;
  const auto model = one ? options_.models.begin() : std::ranges::find(options_.models, asked->model);
  if (model == options_.models.end()) {
    if (asked->model.empty()) {
      return no({400, "model is required: several are served here", "invalid_request_error", "model", ""});
    }
    return no({404, fmt::format("the model `{}` does not exist", asked->model), "invalid_request_error", "model",
               "model_not_found"});
  }
  if (workers_.all_divided() && !net::is_completion(path)) {
    return no({501, "only chat and completions are split between prefill and decode engines", "invalid_request_error",
               "", "unsupported_path"});
  }
  if (const auto [field, what] = shared_kv(*asked, options_.contract); workers_.all_divided() && !field.empty()) {
    return no({400,
               fmt::format("{} not supported with prefill/decode disaggregation: a KV handle has one consumer", what),
               "invalid_request_error", std::string(field), "unsupported_value"});
  }
  // They say where an engine connects to: from a client, to anywhere.
  if (!asked->reserved_field.empty()) {
    return no({400, asked->reserved_field + " is set by the gateway", "invalid_request_error", asked->reserved_field,
               "unsupported_value"});
  }
  return Asked{std::move(*asked), static_cast<std::size_t>(model - options_.models.begin())};
}

void ClientApi::describe_prompt(const net::Exchange& exchange, const net::CompletionRequest& what, Request& request) {
  if (control_.reads_prefix() == 0) return;
  std::string_view key = first_of(exchange.headers(), kSessionHeaders).second;
  if (key.empty()) key = what.cache_key;
  if (!key.empty()) {  // another tenant's session of that name is another session
    request.session = hash_of(std::hash<std::string_view>{}(key), static_cast<std::uint64_t>(request.tenant.value()));
    return;
  }
  const auto blocks = static_cast<std::size_t>(control_.reads_prefix() / kTextBlockTokens);
  const std::string_view body = exchange.body();
  request.content =
      text_blocks(body.substr(what.prompt_text.at, what.prompt_text.size), std::max(blocks, std::size_t{1}));
}

std::unique_ptr<predict::PromptFeatures> ClientApi::hint_length(const net::Exchange& exchange, const Asked& asked,
                                                                LengthFeed* lengths, Request& request) {
  const bool one_answer = net::is_completion(asked.what.path) && asked.what.n == 1 && asked.what.prompts == 1;
  if (lengths == nullptr || !one_answer) return nullptr;
  const std::string tenant = tenants_.name_of(request.tenant);
  const auto [at, size] = asked.what.prompt_text;
  auto features = std::make_unique<predict::PromptFeatures>(
      predict::features_of_json({.prompt_tokens = request.prompt_tokens,
                                 .max_tokens = request.max_tokens,
                                 .tenant = tenant,
                                 .model = options_.models[asked.model]},
                                std::string_view(exchange.body()).substr(at, size)));
  if (request.predicted_output_tokens <= 0) request.predicted_output_tokens = lengths->predict(*features);
  return features;
}

void ClientApi::complete(const std::shared_ptr<net::Exchange>& exchange, RelayContext& context, net::ApiPath path) {
  if (!allowed(*exchange, "POST")) return;
  Request request;
  request.id = RequestId(next_id_.fetch_add(1, std::memory_order_relaxed));
  Incoming in{*exchange, context.observer};
  if (in.observer != nullptr) in.record = in.observer->begin(*exchange, request.id, context.random);
  const auto caller = caller_of(in);
  if (!caller) return;
  if (in.record) in.record->tenant = tenants_.name_of(caller->tenant);
  const auto asked = read(in, path);
  if (!asked) return;
  if (in.record) in.record->model = options_.models[asked->model];
  request.arrival = net::steady_now();
  request.prompt_tokens =
      computes_nothing(exchange->path()) ? 1 : context.prompts.tokens(asked->model, asked->what.prompt);
  const std::int32_t measured = request.prompt_tokens;  // what headers say of it is no matter of limits
  const std::int32_t most = path == net::ApiPath::Other ? 1 : options_.default_max_tokens;
  request.max_tokens = asked->what.max_tokens > 0 ? asked->what.max_tokens : most;
  // No KV cache is handed over for these.
  request.undivided = !net::is_completion(path) || !shared_kv(asked->what, options_.contract).field.empty();
  if (const auto read = callers_.read_wishes(exchange->headers(), *caller, request); !read) {
    return refuse(in, read.error());
  }
  describe_prompt(*exchange, asked->what, request);
  auto features = hint_length(*exchange, *asked, context.lengths, request);
  // It has been on its way for half of that, and its first token will be for the other half.
  const auto origin = static_cast<std::size_t>(request.origin.value());
  if (origin < options_.trips.size()) request.arrival = std::max(begun_, request.arrival - options_.trips[origin]);
  auto place = callers_.enter(*caller, measured, request.arrival);
  if (place.refused != nullptr) {
    const auto seconds = static_cast<std::int64_t>(place.retry_after.seconds()) + 1;
    return refuse(in, {429, place.refused, "rate_limit_error", "", "rate_limit_exceeded"},
                  fmt::format("Retry-After: {}\r\n", seconds));
  }
  const carbon::ModelId model(static_cast<std::int32_t>(asked->model));
  std::make_shared<Relay>(context, exchange, asked->what, request, model, std::move(place.seat), std::move(in.record),
                          std::move(features))
      ->start();
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
  std::int64_t unmetered = 0;
  control_.run_and_wait([&](control::FleetLoop& core, Instant now) {
    ready = core.ready();
    if (!options_.agents.urls.empty()) unmetered = workers_.unmetered(core, now);
  });
  if (ready && !stopping_) {
    // Requests are served all the same: a balancer must not turn away from us because of a disk.
    const std::string journal = options_.journal ? options_.journal().problem : "";
    if (journal.empty() && unmetered == 0) return answer_json(exchange, 200, {{"status", "ok"}});
    nlohmann::ordered_json body{{"status", "degraded"}};
    if (!journal.empty()) body["journal"] = journal;
    if (unmetered > 0) body["unmetered_workers"] = unmetered;
    return answer_json(exchange, 200, body);
  }
  answer_error(exchange, {503, "no instance is ready", "service_unavailable_error", "", "not_ready"},
               "Retry-After: 1\r\n");
}

}  // namespace wattle::gateway
