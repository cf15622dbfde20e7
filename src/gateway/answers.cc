#include "gateway/answers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

bool only(net::Exchange& exchange, std::string_view method) {
  if (exchange.method() == method || (method == "GET" && exchange.method() == "HEAD")) return true;
  answer_error(
      exchange,
      {405, fmt::format("use {} on {}", method, exchange.path()), "invalid_request_error", "", "method_not_allowed"},
      fmt::format("Allow: {}\r\n", method));
  return false;
}

}  // namespace wattle::gateway
