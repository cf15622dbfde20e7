#pragma once
// Answers that every HTTP plane gives: clients', the gateway's admin, agents', planners'.
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "net/exchange.h"
#include "net/openai.h"

namespace wattle::net {

void answer_json(Exchange& exchange, int status, const nlohmann::ordered_json& body);
/// `extra` header lines are complete, each ended by CRLF.
void answer_error(Exchange& exchange, const ApiError& error, std::string_view extra = {});
void answer_problem(Exchange& exchange, int status, std::string_view what);  ///< whose type follows from the status
void answer_not_found(Exchange& exchange);
/// The request's method; GET for HEAD, whose answers leave their body out by themselves.
[[nodiscard]] std::string_view method_of(const Exchange& exchange);
/// A part of a path as it is meant (RFC 3986, 2.1): clients may write a name's slash as %2F. What is no escape stays.
[[nodiscard]] std::string percent_decoded(std::string_view text);
/// Says 405 unless the request has one of the methods that its path serves, all of which are named.
[[nodiscard]] bool only(Exchange& exchange, std::initializer_list<std::string_view> methods);

}  // namespace wattle::net
