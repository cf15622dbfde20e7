#include "testbed/mock_engine_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "net/clock.h"
#include "testbed/mock_engine_api_impl.h"

namespace wattle::testbed {

using nlohmann::json;

namespace {

constexpr std::size_t kBytesPerToken = 4;
constexpr std::string_view kDead = "EngineCore encountered an issue. See stack trace (above) for the root cause.";

/// The highest token id in a prompt; -1: there is none.
std::int64_t highest_id(const json& prompt) {
  std::int64_t highest = -1;
  if (prompt.is_number_integer()) return prompt.get<std::int64_t>();
  if (!prompt.is_array()) return highest;
  for (const auto& item : prompt) highest = std::max(highest, highest_id(item));
  return highest;
}

std::int64_t wall_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A prompt's text; of a chat, all texts together; of token ids, four bytes each.
std::string text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string text;
  if (value.is_number_integer()) {
    const auto id = value.get<std::int32_t>();
    text.append(reinterpret_cast<const char*>(&id), sizeof id);
  } else if (value.is_array()) {
    for (const auto& item : value) text += text_of(item);
  } else if (value.is_object()) {
    for (const char* key : {"content", "text"}) {
      if (const auto found = value.find(key); found != value.end()) text += text_of(*found);
    }
  }
  return text;
}

/// A list of texts, or of lists of token ids, is several prompts.
std::vector<const json*> prompts_of(const json& prompt, bool chat) {
  const auto is_prompt = [](const json& one) { return one.is_string() || one.is_array(); };
  if (chat || !prompt.is_array() || prompt.empty() || !std::ranges::all_of(prompt, is_prompt)) return {&prompt};
  std::vector<const json*> all;
  for (const json& one : prompt) all.push_back(&one);
  return all;
}

bool wants_usage(const json& body) {
  const auto options = body.find("stream_options");
  return options != body.end() && options->is_object() && flag(*options, "include_usage");
}

}  // namespace

void MockApi::refuse(const std::shared_ptr<net::Exchange>& exchange, int status, const std::string& message,
                     const std::string& param, const std::string& extra_headers) const {
  exchange->respond(status, kJson, error_body(options_.dialect, {status, message, param}), extra_headers);
}

std::int64_t positive(const json& body, const char* key, std::int64_t missing) {
  const auto found = body.find(key);
  if (found == body.end() || found->is_null()) return missing;
  if (!found->is_number_integer()) return -1;
  const auto value = found->get<std::int64_t>();
  return value >= 1 && value <= (1 << 30) ? value : -1;
}

bool flag(const json& body, const char* key) {
  const auto found = body.find(key);
  return found != body.end() && found->is_boolean() && found->get<bool>();
}

std::optional<std::string> text_under(const json& body, const char* key) {
  const auto found = body.find(key);
  if (found == body.end() || found->is_null()) return std::string();
  if (!found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

MockApi::MockApi(net::Loop& loop, const MockApiOptions& options)
    : loop_(loop), options_(options), random_(options.seed, "output-length") {}

MockApi::~MockApi() { *alive_ = false; }

std::int32_t MockApi::draw_output_tokens() {
  const double drawn = options_.median_output_tokens * std::exp(options_.sigma_output_tokens * random_.normal());
  return static_cast<std::int32_t>(std::clamp(drawn, 1.0, 100'000.0));
}

void MockApi::handle(const std::shared_ptr<net::Exchange>& exchange) {
  const auto path = exchange->path();
  const bool get = exchange->method() == "GET";
  const bool post = exchange->method() == "POST";
  const auto no_way = [&](bool known, const std::string& extra_headers) {
    const MockError error = no_route(options_.dialect, known);
    exchange->respond(error.status, kJson, no_route_body(options_.dialect, error), extra_headers);
  };
  const auto only = [&](bool right, const char* method) {
    if (!right) no_way(true, std::string("Allow: ") + method + "\r\n");
    return right;
  };
  const bool loading = net::steady_now() < options_.loaded;
  if (loading && path != "/metrics") {
    refuse(exchange, 503, "the weights are being loaded", "", "Retry-After: 1\r\n");
  } else if (path == "/wattle/die") {
    if (!only(post, "POST")) return;
    die();
    exchange->respond(200, kJson, "{}");
  } else if (dead_) {
    refuse(exchange, path == "/health" ? 503 : 500, std::string(kDead));
  } else if (path == "/v1/chat/completions" || path == "/v1/completions") {
    if (only(post, "POST")) completion(exchange, path == "/v1/chat/completions");
  } else if (path == "/wattle/kv_pull") {
    if (only(post, "POST")) pull(exchange);
  } else if (path == "/health" || path == "/metrics" || path == "/v1/models" || path == "/load" ||
             (options_.dialect == Dialect::Sglang && (path == "/v1/loads" || path == "/get_load"))) {
    if (only(get, "GET")) state(exchange, path);
  } else {
    no_way(false, "");
  }
}

/// Endpoints for monitoring.
void MockApi::state(const std::shared_ptr<net::Exchange>& exchange, std::string_view path) {
  const auto now = engine_->counts();
  if (path == "/health") {
    exchange->respond(200, "text/plain", "");
  } else if (path == "/metrics") {
    exchange->respond(200, "text/plain; version=0.0.4",
                      options_.dialect == Dialect::Sglang
                          ? sglang_metrics(options_.model, now, options_.block_size * engine_->blocks_total())
                          : metrics_.text(options_.model, now, options_.block_size, engine_->blocks_total()));
  } else if (path == "/load") {
    exchange->respond(200, kJson, json{{"server_load", now.running + now.waiting}}.dump());
  } else if (path == "/v1/loads" || path == "/get_load") {
    exchange->respond(200, kJson,
                      sglang_loads(now, options_.block_size * engine_->blocks_total(), path == "/v1/loads").dump());
  } else {
    const json models = {{"object", "list"},
                         {"data",
                          {{{"id", options_.model},
                            {"object", "model"},
                            {"created", wall_seconds()},
                            {"owned_by", "wattle"},
                            {"max_model_len", options_.max_model_tokens}}}}};
    exchange->respond(200, kJson, models.dump());
  }
}

void MockApi::die() {
  dead_ = true;
  std::vector<engine::Tag> tags;
  for (const auto& [tag, completion] : completions_) tags.push_back(tag);
  for (const engine::Tag tag : tags) {
    const auto found = completions_.find(tag);
    if (found == completions_.end()) continue;
    Completion& completion = *found->second;
    if (completion.gone) continue;
    completion.gone = true;
    if (completion.reply->close()) {
      completion.reply->begun() ? completion.reply->broken(kDead)
                                : refuse(completion.exchange, 500, std::string(kDead));
    }
    client_gone(tag);
  }
}

std::string MockApi::load_report(const net::Exchange& exchange) const {
  const std::string_view format = exchange.headers().get("endpoint-load-metrics-format");
  if (format.empty() || options_.dialect != Dialect::Vllm) return "";
  const auto now = engine_->counts();
  const auto waiting = static_cast<double>(now.waiting);
  if (format == "json" || format == "JSON") {
    const json report = {{"named_metrics", {{"kv_cache_usage_perc", now.kv_usage}, {"num_requests_waiting", waiting}}}};
    return "endpoint-load-metrics: JSON " + report.dump() + "\r\n";
  }
  return fmt::format(
      "endpoint-load-metrics: TEXT named_metrics.kv_cache_usage_perc={}, named_metrics.num_requests_waiting={:.1f}\r\n",
      now.kv_usage, waiting);
}

void MockApi::completion(const std::shared_ptr<net::Exchange>& exchange, bool chat) {
  const json body = json::parse(exchange->body(), nullptr, false);
  const auto bad = [&](const std::string& what, const char* param = "", int status = 400) {
    ++metrics_.rejected;
    refuse(exchange, status, what, param);
  };
  if (!body.is_object()) return bad("the body is no JSON object");
  if (const auto model = body.find("model"); model != body.end() && *model != options_.model) {
    return bad("The model `" + model->dump() + "` does not exist; this is " + options_.model, "model", 404);
  }
  const char* source = chat ? "messages" : "prompt";
  const auto prompt = body.find(source);
  if (prompt == body.end() || (chat && (!prompt->is_array() || prompt->empty()))) return bad("is required", source);
  if (positive(body, "n", 1) != 1) return bad("only n = 1 is supported", "n");

  if (const std::int64_t id = chat ? -1 : highest_id(*prompt); id >= options_.vocabulary) {
    return bad(fmt::format("Token id {} is out of vocabulary", id), source);
  }

  std::vector<std::unique_ptr<Completion>> all;
  const auto prompts = prompts_of(*prompt, chat);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto made = read_prompt(*exchange, body, *prompts[i], chat);
    if (!made) return bad(made.error().message, made.error().param.c_str());
    const MockError wrong = read_hand_over(body, i, prompts.size(), **made);
    if (!wrong.message.empty()) return bad(wrong.message, wrong.param.c_str());
    all.push_back(std::move(*made));
  }
  const std::string id = fmt::format("{}-{}-{}", chat ? "chatcmpl" : "cmpl", options_.engine_id, next_id_++);
  const std::string request_id(exchange->headers().get("x-request-id"));
  const auto reply =
      std::make_shared<MockReply>(exchange, Wording(options_.dialect, chat, id, options_.model, wall_seconds()),
                                  all.size(), flag(body, "stream"), wants_usage(body));
  std::vector<engine::Tag> tags;
  for (auto& one : all) {
    one->exchange = exchange;
    one->reply = reply;
    one->choice = tags.size();
    one->tag = next_tag_++;
    one->id = id;
    one->request_id = request_id.empty() ? id : request_id;
    tags.push_back(one->tag);
  }
  exchange->on_gone([this, tags, alive = alive_] {
    // Not from within the engine: it may be the very write of a token that finds the client gone.
    loop_.post([this, tags, alive] {
      for (const engine::Tag tag : tags) {
        if (*alive) client_gone(tag);
      }
    });
  });
  for (auto& one : all) {
    const bool fetches = (!one->pull_id.empty() || !one->room.empty()) && one->pull_port != 0;
    fetches ? fetch_kv(std::move(one)) : start(std::move(one));
  }
}

/// One prompt of a request, and how much is computed for it.
std::expected<std::unique_ptr<MockApi::Completion>, MockError> MockApi::read_prompt(const net::Exchange& exchange,
                                                                                    const json& body,
                                                                                    const json& prompt, bool chat) {
  const auto bad = [](std::string what, const char* param) {
    return std::unexpected(MockError{400, std::move(what), param});
  };
  auto completion = std::make_unique<Completion>();
  const std::string text = text_of(prompt);
  const auto tokens = static_cast<std::int64_t>((text.size() + 3) / kBytesPerToken);
  const std::int64_t room = options_.max_model_tokens - tokens;
  std::int64_t cap = positive(body, "max_completion_tokens",
                              positive(body, "max_tokens", chat ? std::max<std::int64_t>(room, 1) : 16));
  if (cap < 0) return bad("takes a whole number above 0", "max_tokens");
  std::int64_t output = positive(body, "wattle_output_tokens", 0);
  if (output < 0) return bad("takes a whole number above 0", "wattle_output_tokens");
  if (const auto hint = exchange.headers().get("x-wattle-output-tokens"); output == 0 && !hint.empty()) {
    const auto [end, error] = std::from_chars(hint.data(), hint.data() + hint.size(), output);
    if (error != std::errc() || end != hint.data() + hint.size() || output < 1) {
      return bad("takes a whole number above 0", "x-wattle-output-tokens");
    }
  }
  if (output == 0) output = flag(body, "ignore_eos") ? cap : draw_output_tokens();
  output = std::min(output, cap);
  if (room < 1 || output > room ||
      !engine_->can_ever_fit(static_cast<std::int32_t>(std::max<std::int64_t>(tokens, 1)),
                             static_cast<std::int32_t>(output))) {
    return bad(fmt::format("{} prompt and {} output tokens do not fit here (context {} tokens)", tokens, output,
                           options_.max_model_tokens),
               chat ? "messages" : "prompt");
  }
  completion->chat = chat;
  completion->content = text_blocks(text, text.size());
  completion->prompt = static_cast<std::int32_t>(std::max<std::int64_t>(tokens, 1));
  completion->output = static_cast<std::int32_t>(output);
  completion->max_tokens = static_cast<std::int32_t>(cap);
  completion->arrival = completion->last = net::steady_now();
  return completion;
}

void MockApi::client_gone(engine::Tag tag) {
  if (const auto fetch = fetching_.extract(tag)) {
    ++metrics_.finished_abort;
    if (fetch.mapped()) fetch.mapped()->cancel();  // closes the connection to the prefill side
    return;
  }
  const auto found = completions_.find(tag);
  if (found == completions_.end()) return;
  Completion& completion = *found->second;
  completion.gone = true;
  if (completion.room.empty()) {
    engine_->cancel(tag);
  } else if (options_.role == Role::Prefill) {
    give_up_kv(tag, "the prefill leg was cancelled");
  } else {
    engine_->cancel(tag);
  }
}

void MockApi::start(std::unique_ptr<Completion> completion) {
  engine::Job job;
  job.tag = completion->tag;
  job.id = RequestId(static_cast<std::int64_t>(completion->tag));
  job.arrival = completion->arrival;
  job.prompt_tokens = completion->prompt;
  job.output_tokens = completion->output;
  if (options_.role == Role::Prefill) {
    // A request with more tokens to come keeps its KV here after the first token; others free it.
    job.output_tokens = completion->to_be_pulled ? 2 : 1;
    completion->output = 1;
  }
  job.kv_ready = completion->kv_ready;
  job.content = completion->content;
  Completion& at = *completion;
  completions_[job.tag] = std::move(completion);
  metrics_.prompt_tokens += at.prompt;
  if (at.kv_ready && at.output == 1) {
    send_token(at);
    return finish(job.tag);
  }
  engine_->submit(job);
}

void MockApi::send_token(Completion& completion) {
  const Instant now = net::steady_now();
  (completion.sent == 0 ? metrics_.ttft : metrics_.itl)
      .add((now - (completion.sent == 0 ? completion.arrival : completion.last)).seconds());
  completion.last = now;
  ++completion.sent;
  ++metrics_.generation_tokens;
  if (completion.gone) return;
  completion.reply->token(completion.choice,
                          completion.sent == completion.output ? completion.finish_reason() : nullptr);
}

void MockApi::on_token(engine::Tag tag) {
  if (const auto found = completions_.find(tag); found != completions_.end()) send_token(*found->second);
}

void MockApi::on_event(const engine::Event& event) {
  const auto found = completions_.find(event.tag);
  if (found == completions_.end()) return;
  Completion& completion = *found->second;
  completion.cached = event.cached_tokens;
  switch (event.kind) {
    case engine::EventKind::FirstToken:
      send_token(completion);
      if (completion.to_be_pulled && completion.room.empty()) answer_prefill(event.tag);
      if (completion.to_be_pulled && !completion.room.empty()) open_room(event.tag);
      break;
    case engine::EventKind::TakenOver:
      send_token(completion);
      break;
    case engine::EventKind::Finished:
      finish(event.tag);
      break;
    case engine::EventKind::Cancelled:
      ++metrics_.finished_abort;
      completions_.erase(found);
      break;
  }
}

void MockApi::answer_prefill(engine::Tag tag) {
  Completion& completion = *completions_.at(tag);
  if (completion.gone) {  // nobody will fetch the KV
    loop_.post([this, tag, alive = alive_] {
      if (*alive) engine_->release(tag);
    });
    return finish(tag);
  }
  held_kv_[completion.request_id] = tag;
  const std::int64_t blocks = (completion.prompt + options_.block_size - 1) / options_.block_size;
  std::vector<std::int64_t> ids(static_cast<std::size_t>(blocks));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i) + 1;
  json answer = {{"id", completion.id},
                 {"object", completion.chat ? "chat.completion" : "text_completion"},
                 {"created", wall_seconds()},
                 {"model", options_.model},
                 {"choices", json::array({{{"index", 0}, {"finish_reason", "length"}}})},
                 {"usage", completion.usage().json()},
                 {"kv_transfer_params",
                  {{"do_remote_prefill", true},
                   {"do_remote_decode", false},
                   {"remote_block_ids", json::array({ids})},
                   {"remote_engine_id", options_.engine_id},
                   {"remote_request_id", completion.request_id},
                   {"remote_host", "127.0.0.1"},
                   {"remote_port", port_},
                   {"tp_size", options_.tensor_parallel},
                   {"remote_num_tokens", completion.prompt}}}};
  auto& choice = answer["choices"][0];
  if (completion.chat) {
    choice["message"] = {{"role", "assistant"}, {"content", kWord}};
  } else {
    choice["text"] = kWord;
  }
  completion.exchange->respond(200, kJson, answer.dump(), load_report(*completion.exchange));
  loop_.after(options_.kv_lease, [this, id = completion.request_id, tag, alive = alive_] {
    if (!*alive) return;
    const auto held = held_kv_.find(id);
    if (held == held_kv_.end() || held->second != tag) return;
    held_kv_.erase(held);
    completions_.erase(tag);
    engine_->release(tag);
  });
}

void MockApi::finish(engine::Tag tag) {
  const auto found = completions_.find(tag);
  if (found == completions_.end()) return;
  const std::unique_ptr<Completion> completion = std::move(found->second);
  completions_.erase(found);
  const char* reason = completion->finish_reason();
  ++(std::string_view(reason) == "length" ? metrics_.finished_length : metrics_.finished_stop);
  metrics_.e2e.add((net::steady_now() - completion->arrival).seconds());
  metrics_.prompt.add(completion->prompt);
  metrics_.generation.add(completion->sent);
  if (completion->gone) return;
  completion->reply->finished(completion->choice, reason, completion->usage(), load_report(*completion->exchange));
}

}  // namespace wattle::testbed
