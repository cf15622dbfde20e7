#include "planner/gateway_admin.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "journal/plan_reader.h"
#include "net/log.h"
#include "planner/managers_wire.h"

namespace wattle::planner {

namespace {

constexpr std::size_t kMostComplaints = 1000;

}  // namespace

GatewayAdmin::GatewayAdmin(std::string url, std::string_view token) : url_(std::move(url)) {
  std::random_device random;
  name_ = fmt::format("planner-{:08x}{:08x}", random(), random());
  caller_.set_token(token);
}

GatewayAdmin::Answer GatewayAdmin::answer_to(const std::string& what, const Result<launch::AdminAnswer>& answer) {
  if (answer && answer->status / 100 == 2) {
    complaints_.erase(what);
    return Answer::Done;
  }
  const std::string said = answer ? answer->body : answer.error().message();
  if (complaints_.size() >= kMostComplaints) complaints_.clear();
  if (std::exchange(complaints_[what], said) != said) {
    net::log_line(net::LogLevel::Warning, "the gateway has not taken what was said to it",
                  {{"of", what}, {"answer", said}});
  }
  if (!answer) return Answer::Failed;
  if (answer->status == 404) return Answer::Unknown;
  const bool wrong = answer->status == 400 || answer->status == 409 || answer->status == 413;
  return wrong ? Answer::Refused : Answer::Failed;
}

std::string GatewayAdmin::add_worker(const nlohmann::json& worker) {
  const auto answer = caller_.call(url_, "POST", "/workers", worker.dump());
  if (answer_to("a new engine", answer) != Answer::Done) return {};
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  return json.is_object() ? json.value("id", "") : "";
}

GatewayAdmin::Answer GatewayAdmin::offer(const std::string& worker, const std::string& url) {
  return answer_to(url, caller_.call(url_, "PUT", "/workers/" + worker, nlohmann::json{{"url", url}}.dump()));
}

GatewayAdmin::Answer GatewayAdmin::withdraw(const std::string& worker) {
  return answer_to("the end of " + worker, caller_.call(url_, "DELETE", "/workers/" + worker));
}

GatewayAdmin::Seen GatewayAdmin::look(const std::string& worker, const std::string& url) {
  const auto answer = caller_.call(url_, "GET", "/workers/" + worker);
  if (!answer) return {};
  if (answer->status == 404) return {Answer::Unknown, {}, -1};
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  if (answer->status != 200 || !json.is_object()) return {};
  const std::string stands = json.value("url", "");
  if (!stands.empty() && stands != url) return {Answer::Unknown, {}, -1};
  return {Answer::Done, json.value("status", ""), json.value("active_requests", std::int64_t{-1})};
}

GatewayAdmin::Answer GatewayAdmin::record(const nlohmann::ordered_json& records) {
  return answer_to("decisions",
                   caller_.call(url_, "POST", "/journal", nlohmann::ordered_json{{"records", records}}.dump()));
}

GatewayAdmin::Answer GatewayAdmin::put_plan(std::span<const PoolWeight> weights, std::span<const ClockRange> clocks,
                                            Span lease) {
  nlohmann::json body{{"weights", nlohmann::json::array()},
                      {"clocks", nlohmann::json::array()},
                      {"lease_ms", lease.ns() / 1'000'000},
                      {"planner", name_}};
  for (const PoolWeight& w : weights) {
    body["weights"].push_back({{"class", w.request_class.value()}, {"pool", w.pool.value()}, {"weight", w.weight}});
  }
  for (const ClockRange& range : clocks) {
    body["clocks"].push_back(
        {{"pool", range.pool.value()}, {"least_mhz", range.least.value()}, {"most_mhz", range.most.value()}});
  }
  return answer_to("a plan", caller_.call(url_, "PUT", "/plan", body.dump()));
}

std::optional<GatewayAdmin::InForce> GatewayAdmin::in_force() {
  const auto answer = caller_.call(url_, "GET", "/plan");
  if (!answer || answer->status != 200) return std::nullopt;
  const auto plan = journal::plan_from_json(answer->body);
  const auto json = nlohmann::ordered_json::parse(answer->body, nullptr, false);
  if (!plan || !json.is_object()) return std::nullopt;
  InForce found{plan->weights, plan->clocks, {}, {}, json.contains("stopping") && json["stopping"] == true};
  for (const auto& count : json.value("arrived", nlohmann::ordered_json::array())) {
    if (count.is_number_integer()) found.arrived.push_back(count.get<std::int64_t>());
  }
  // None from a gateway that does not say it.
  if (auto counts = turned_out_from_json(json)) {
    found.turned_out = std::move(*counts);
  }
  return found;
}

}  // namespace wattle::planner
