#pragma once
// Responses common to all HTTP planes: clients', the gateway's admin plane, agents', planners'.
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
void answer_problem(Exchange& exchange, int status,
                    std::string_view what);  ///< the error's type follows from the status
void answer_not_found(Exchange& exchange);
/// The request's method; GET for HEAD, because the server omits the body of a response to HEAD.
[[nodiscard]] std::string_view method_of(const Exchange& exchange);
/// A part of a path with its percent-escapes decoded (RFC 3986, 2.1); clients may write a slash in a name as %2F.
/// Invalid escapes are kept.
[[nodiscard]] std::string percent_decoded(std::string_view text);
/// Answers 405 unless the request has one of the methods of its path, which must all be given.
[[nodiscard]] bool only(Exchange& exchange, std::initializer_list<std::string_view> methods);
/// Answers 400 and returns true if the request's JSON is nested deeper than kNestedMost: nlohmann copies and writes
/// values recursively, so that a few megabytes of brackets would overflow the stack.
[[nodiscard]] bool refused_as_too_deep(Exchange& exchange);

}  // namespace wattle::net
