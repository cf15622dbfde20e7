#pragma once
// Answers that both planes of the gateway give.
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "net/exchange.h"
#include "net/openai.h"

namespace wattle::gateway {

void answer_json(net::Exchange& exchange, int status, const nlohmann::ordered_json& body);
/// `extra` header lines are complete, each ended by CRLF.
void answer_error(net::Exchange& exchange, const net::ApiError& error, std::string_view extra = {});
void answer_not_found(net::Exchange& exchange);
/// The request's method; GET for HEAD, whose answers leave their body out by themselves.
[[nodiscard]] std::string_view method_of(const net::Exchange& exchange);
/// Says 405 unless the request has one of the methods that its path serves, all of which are named.
[[nodiscard]] bool only(net::Exchange& exchange, std::initializer_list<std::string_view> methods);
/// JSON text of what may hold names from outside: bytes that are not UTF-8 are replaced, never an exception.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& body);

}  // namespace wattle::gateway
