#include "gateway/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "net/append.h"

namespace wattle::gateway {

std::string json_text(const nlohmann::ordered_json& body) {
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void answer_json(net::Exchange& exchange, int status, const nlohmann::ordered_json& body) {
  exchange.respond(status, "application/json", json_text(body));
}

void answer_error(net::Exchange& exchange, const net::ApiError& error, std::string_view extra) {
  exchange.respond(error.status, "application/json", net::error_json(error), extra);
}

void answer_not_found(net::Exchange& exchange) {
  answer_error(exchange,
               {404, fmt::format("no such path: {}", exchange.path()), "invalid_request_error", "", "not_found"});
}

std::string_view method_of(const net::Exchange& exchange) {
  return exchange.method() == "HEAD" ? "GET" : exchange.method();
}

bool only(net::Exchange& exchange, std::initializer_list<std::string_view> methods) {
  if (std::ranges::find(methods, method_of(exchange)) != methods.end()) return true;
  std::string allowed;
  for (const std::string_view method : methods) {
    net::append(allowed, {allowed.empty() ? "" : ", ", method, method == "GET" ? ", HEAD" : ""});
  }
  answer_error(
      exchange,
      {405, fmt::format("use {} on {}", allowed, exchange.path()), "invalid_request_error", "", "method_not_allowed"},
      fmt::format("Allow: {}\r\n", allowed));
  return false;
}

}  // namespace wattle::gateway
