// MockApi's hand-over of KV between a prefill and a decode instance, in both contracts.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/handoff.h"
#include "net/clock.h"
#include "testbed/mock_engine_api_impl.h"

namespace wattle::testbed {

using nlohmann::json;

namespace {
/// SGLang's --disaggregation-bootstrap-port, where a request says none.
constexpr std::int64_t kBootstrapPort = 8998;

std::string room_key(const std::string& room) { return "room " + room; }
}  // namespace

/// Where the KV of one of a request's prompts is handed over. An error without text: nothing is wrong.
MockError MockApi::read_hand_over(const json& body, std::size_t prompt, std::size_t prompts,
                                  Completion& completion) const {
  const auto kv = body.find("kv_transfer_params");
  if (kv != body.end() && kv->is_object()) {
    const bool away = flag(*kv, "do_remote_decode") && options_.role == Role::Prefill;
    const bool here = flag(*kv, "do_remote_prefill") && options_.role != Role::Prefill;
    if ((away || here) && prompts > 1) return {400, "hand over the KV of one prompt", "kv_transfer_params"};
    completion.to_be_pulled = away;
    if (here) {
      const auto host = text_under(*kv, "remote_host");
      const auto id = text_under(*kv, "remote_request_id");
      if (!host || !id) return {400, "needs remote_host and remote_request_id as strings", "kv_transfer_params"};
      completion.pull_host = *host;
      const auto port = positive(*kv, "remote_port", 0);
      completion.pull_port = static_cast<std::uint16_t>(port > 0 && port < 65536 ? port : 0);
      completion.pull_id = *id;
    }
  }
  if (!body.contains("bootstrap_room") || options_.role == Role::Colocated) return {400, "", ""};
  json own;  // of several prompts each has its own
  for (const char* key : {"bootstrap_host", "bootstrap_port", "bootstrap_room"}) {
    const json all = body.value(key, json());
    own[key] = prompts > 1 && all.is_array() && all.size() == prompts ? all[prompt] : all;
  }
  const json& room = own["bootstrap_room"];
  const auto port = positive(own, "bootstrap_port", kBootstrapPort);
  if (!room.is_number_unsigned() || !own["bootstrap_host"].is_string() || port < 1 || port > 65535) {
    return {400, "needs bootstrap_host, bootstrap_port (or null) and bootstrap_room", "bootstrap_room"};
  }
  completion.room = room.dump();
  if (options_.role == Role::Prefill) {
    completion.to_be_pulled = true;
  } else {
    completion.pull_host = own["bootstrap_host"].get<std::string>();
    completion.pull_port = static_cast<std::uint16_t>(port);
  }
  return {400, "", ""};
}

/// The decode side's question for the KV of one request; the prefill side answers when the transfer is over.
class MockApi::Pull final : public net::ResponseHandler {
 public:
  Pull(MockApi& api, std::shared_ptr<Completion> completion)
      : api_(api), completion_(std::move(completion)), alive_(api.alive_) {}
  void on_head(int status, const net::HeaderFields&, std::int64_t) override { ok_ = status == 200; }
  void on_body(std::string_view) override {}
  void on_end() override { done(ok_); }
  void on_failure(net::CallFailure) override { done(false); }

 private:
  void done(bool ok) {
    if (*alive_) api_.kv_arrived(std::move(completion_), ok);
  }
  MockApi& api_;
  std::shared_ptr<Completion> completion_;
  std::shared_ptr<bool> alive_;
  bool ok_ = false;
};

void MockApi::fetch_kv(std::unique_ptr<Completion> unique) {
  std::shared_ptr<Completion> completion = std::move(unique);
  fetching_[completion->tag] = nullptr;
  auto endpoint = net::resolve_endpoint(fmt::format("http://{}:{}", completion->pull_host, completion->pull_port),
                                        "kv_transfer_params.remote_host");
  if (!endpoint) return kv_arrived(completion, false);
  if (!client_) client_ = std::make_unique<net::HttpClient>(loop_, net::ClientOptions{});
  completion->pull_body = completion->room.empty() ? json({{"remote_request_id", completion->pull_id}}).dump()
                                                   : fmt::format(R"({{"bootstrap_room":{}}})", completion->room);
  fetching_[completion->tag] = client_->send(std::make_shared<net::Endpoint>(std::move(*endpoint)), "POST",
                                             "/wattle/kv_pull", "Content-Type: application/json\r\n",
                                             completion->pull_body, std::make_shared<Pull>(*this, completion));
}

void MockApi::kv_arrived(std::shared_ptr<Completion> completion, bool ok) {
  fetching_.erase(completion->tag);
  if (!ok && !completion->room.empty()) {  // SGLang has nothing to fall back on
    ++metrics_.rejected;
    if (!completion->reply->close()) return;
    return refuse(completion->exchange, 500, "KV transfer failed: the prefill side did not deliver");
  }
  completion->kv_ready = ok;  // not there: recompute, as vLLM's kv_load_failure_policy does
  const double passes = options_.link.handoff_steps;
  if (!ok || passes <= 0.0) return start(std::make_unique<Completion>(std::move(*completion)));
  const engine::Tag tag = completion->tag;
  fetching_[tag] = nullptr;  // its client may still go
  const double wait_s = engine_->step_length().seconds() * passes * engine::handoff_wait(handed_over_++);
  loop_.after(Span::from_seconds(wait_s), [this, tag, completion, alive = alive_] {
    if (*alive && fetching_.erase(tag) > 0) start(std::make_unique<Completion>(std::move(*completion)));
  });
}

void MockApi::pull(const std::shared_ptr<net::Exchange>& exchange) {
  const json body = json::parse(exchange->body(), nullptr, false);
  const auto room = body.is_object() ? body.find("bootstrap_room") : body.end();
  const bool in_room = body.is_object() && room != body.end() && room->is_number_unsigned();
  const std::string key = in_room            ? room_key(room->dump())
                          : body.is_object() ? text_under(body, "remote_request_id").value_or("")
                                             : "";
  const auto held = held_kv_.find(key);
  if (held == held_kv_.end() && in_room) {
    if (!in_rooms_.emplace(key, exchange).second) return refuse(exchange, 409, "another request waits in that room");
    const auto leave = [this, key, exchange, alive = alive_](int status, const char* what) {
      if (!*alive) return;
      const auto waiting = in_rooms_.find(key);
      if (waiting == in_rooms_.end() || waiting->second != exchange) return;
      in_rooms_.erase(waiting);
      if (status != 0) refuse(exchange, status, what);
    };
    exchange->on_gone([leave] { leave(0, ""); });
    loop_.after(options_.bootstrap_timeout, [leave] { leave(504, "no prefill came to that room"); });
    return;
  }
  if (held == held_kv_.end()) return refuse(exchange, 404, "no KV is held under that id");
  const engine::Tag tag = held->second;
  held_kv_.erase(held);
  transfer(tag, exchange);
}

/// One transfer after the other over the link; the prefill leg of SGLang's contract is answered when it is over.
void MockApi::transfer(engine::Tag tag, const std::shared_ptr<net::Exchange>& puller) {
  const auto found = completions_.find(tag);
  const double bytes = options_.kv_bytes_per_token * found->second->prompt;
  const Instant now = net::steady_now();
  const double bandwidth = options_.link.bandwidth_bytes_per_s;
  link_free_ = std::max(link_free_, now) + Span::from_seconds(bandwidth > 0 ? bytes / bandwidth : 0.0);
  const bool in_room = !found->second->room.empty();
  if (in_room) {
    puller->on_gone([this, tag, alive = alive_] {
      loop_.post([this, tag, alive] {
        if (*alive) give_up_kv(tag, "KV transfer failed: the decode side has gone");
      });
    });
  }
  loop_.after(link_free_ + options_.link.latency - now, [this, tag, puller, in_room, alive = alive_] {
    if (!*alive || !completions_.contains(tag)) return;
    if (in_room) {
      finish(tag);
    } else {
      completions_.erase(tag);
    }
    engine_->release(tag);
    puller->respond(200, kJson, "{}");
  });
}

/// A prefilled request waits for its decode side, or finds it waiting.
void MockApi::open_room(engine::Tag tag) {
  const std::string key = room_key(completions_.at(tag)->room);
  if (const auto waiting = in_rooms_.extract(key)) return transfer(tag, waiting.mapped());
  held_kv_[key] = tag;
  loop_.after(options_.bootstrap_timeout, [this, key, tag, alive = alive_] {
    const auto held = *alive ? held_kv_.find(key) : held_kv_.end();
    if (*alive && held != held_kv_.end() && held->second == tag) {
      give_up_kv(tag, "KV transfer failed: no decode side came");
    }
  });
}

/// The prefill side of SGLang's contract ends without a hand-over; a waiting decode engine is notified at once.
void MockApi::give_up_kv(engine::Tag tag, const char* why) {
  const auto found = completions_.find(tag);
  if (found == completions_.end()) return;
  const std::unique_ptr<Completion> completion = std::move(found->second);
  completions_.erase(found);
  const std::string key = room_key(completion->room);
  if (const auto waiting = in_rooms_.extract(key)) refuse(waiting.mapped(), 410, why);
  if (const auto held = held_kv_.find(key); held != held_kv_.end() && held->second == tag) held_kv_.erase(held);
  ++metrics_.finished_abort;
  if (completion->sent > 0) {
    engine_->release(tag);
  } else {
    engine_->cancel(tag);
  }
  if (completion->gone || !completion->reply->close()) return;
  if (completion->reply->begun()) {
    completion->exchange->drop();
  } else {
    refuse(completion->exchange, 500, why);
  }
}

}  // namespace wattle::testbed
