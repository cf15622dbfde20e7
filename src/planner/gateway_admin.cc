#include "planner/gateway_admin.h"

#include <spdlog/spdlog.h>

#include <charconv>

namespace wattle::planner {

GatewayAdmin::Answer GatewayAdmin::answer_to(const std::string& what, const Result<launch::AdminAnswer>& answer) {
  if (answer && answer->status / 100 == 2) return Answer::Done;
  spdlog::warn("the gateway would not hear of {}: {}", what, answer ? answer->body : answer.error().message());
  return answer && answer->status == 404 ? Answer::Unknown : Answer::Failed;
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

GatewayAdmin::Seen GatewayAdmin::look(const std::string& worker) {
  const auto answer = caller_.call(url_, "GET", "/workers/" + worker);
  if (!answer) return {};
  if (answer->status == 404) return {Answer::Unknown, {}, -1};
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  if (answer->status != 200 || !json.is_object()) return {};
  return {Answer::Done, json.value("status", ""), json.value("active_requests", std::int64_t{-1})};
}

GatewayAdmin::Answer GatewayAdmin::record(const nlohmann::ordered_json& records) {
  return answer_to("decisions",
                   caller_.call(url_, "POST", "/journal", nlohmann::ordered_json{{"records", records}}.dump()));
}

std::optional<std::int64_t> GatewayAdmin::arrived() {
  const auto answer = caller_.call(url_, "GET", "/metrics");
  if (!answer || answer->status != 200) return std::nullopt;
  constexpr std::string_view kName = "\nwattle_gateway_requests_arrived_total ";
  const std::size_t place = answer->body.find(kName);
  if (place == std::string::npos) return std::nullopt;
  const char* first = answer->body.data() + place + kName.size();
  std::int64_t total = 0;
  std::from_chars(first, answer->body.data() + answer->body.size(), total);
  return total;
}

}  // namespace wattle::planner
