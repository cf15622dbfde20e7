// SGLang's contract: prefill and decode legs of a request, both at once.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "gateway/leg_bootstrap.h"
#include "gateway/relay.h"

namespace wattle::gateway {

namespace {
constexpr std::size_t kPrefillErrorMax = 64 * 1024;
}

void Relay::send_both() {
  const std::string& host_port = prefill_worker_->endpoint->host_port;
  std::vector<std::uint64_t> rooms(static_cast<std::size_t>(prompts_));
  for (auto& room : rooms) room = context_.random();
  auto body = bootstrap::body_for_both(body_of_client(), host_port.substr(0, host_port.rfind(':')),
                                       prefill_worker_->bootstrap_port, rooms);
  if (!body) return fail(400, "unreadable body", "the request body is not a JSON object");
  both_body_ = std::make_shared<const std::string>(std::move(*body));
  prefill_leg_ = std::make_shared<PrefillLeg>(shared_from_this(), both_body_);
  prefill_leg_->send(context_.client, prefill_worker_->endpoint, target(), headers_, with_ours(*both_body_));
  send(*both_body_);
}

void Relay::prefill_over() {
  if (!prefill_worker_) return;
  prefill_worker_.reset();
  context_.control.prefill_done(request_.id);
}

void Relay::drop_prefill_leg() {
  if (const auto leg = std::exchange(prefill_leg_, nullptr)) leg->cancel();
}

void Relay::prefill_leg_done() {
  prefill_leg_.reset();
  if (!over_) prefill_over();
}

void Relay::prefill_leg_refused(int status, const std::string& answer) {
  prefill_leg_.reset();
  if (over_ || tally_.count() > 0) return;
  now_fresh_ = false;
  if (call_) call_->cancel();  // it would wait for KV that never comes
  call_.reset();
  if (prefill_worker_ && denied_model(status, *prefill_worker_)) return;
  if (begun_ || status < 400) return fail(502, "the prefill engine refused", "the prefill engine refused the request");
  status_ = status;
  exchange_->respond(status, "application/json", answer, "X-Request-Id: " + request_id_ + "\r\n");
  end(status / 100 == 4 ? Fate::Rejected : Fate::Failed, "the prefill engine answered with an error");
}

void Relay::prefill_leg_failed(net::CallFailure failure) {
  prefill_leg_.reset();
  if (over_) return;
  if (failure != net::CallFailure::Resources) {
    context_.metrics.worker_failure(prefill_worker_ ? prefill_worker_->endpoint->url : "prefill");
  }
  if (failure == net::CallFailure::Connect && prefill_worker_) context_.worker_down(prefill_worker_->id);
  if (tally_.count() > 0) return;  // the KV has been handed over: decode does not need it any more
  now_fresh_ = false;
  const bool slow = failure == net::CallFailure::Timeout || failure == net::CallFailure::Resources;
  if (!slow && prefill_worker_ && try_another(prefill_worker_->id, true)) return;
  if (call_) call_->cancel();
  call_.reset();
  fail(502, "the prefill engine failed", fmt::format("the prefill engine failed: {}", net::text_of(failure)));
}

void PrefillLeg::send(net::HttpClient& client, const std::shared_ptr<const net::Endpoint>& endpoint,
                      std::string_view target, std::string_view headers, const net::Body& body) {
  call_ = client.send(endpoint, "POST", target, headers, body, shared_from_this());
}

void PrefillLeg::cancel() {
  relay_.reset();
  if (call_) call_->cancel();
  call_.reset();
}

void PrefillLeg::on_body(std::string_view bytes) {
  if (status_ != 200 && error_.size() < kPrefillErrorMax) error_.append(bytes.substr(0, kPrefillErrorMax));
}

void PrefillLeg::on_end() {
  call_.reset();
  const auto relay = std::exchange(relay_, nullptr);
  if (!relay) return;
  status_ == 200 ? relay->prefill_leg_done() : relay->prefill_leg_refused(status_, error_);
}

void PrefillLeg::on_failure(net::CallFailure failure) {
  call_.reset();
  if (const auto relay = std::exchange(relay_, nullptr)) relay->prefill_leg_failed(failure);
}

}  // namespace wattle::gateway
