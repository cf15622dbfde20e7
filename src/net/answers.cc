#include "net/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "net/append.h"

namespace wattle::net {

namespace {

bool nested_too_deep(std::string_view json) {
  int depth = 0;
  for (bool text = false; !json.empty(); json.remove_prefix(1)) {
    const char c = json.front();
    if (text && c == '\\' && json.size() > 1) json.remove_prefix(1);
    if (c == '"') text = !text;
    if (text) continue;
    if ((c == '[' || c == '{') && ++depth > kNestedMost) return true;
    if (c == ']' || c == '}') --depth;
  }
  return false;
}

}  // namespace

void answer_json(Exchange& exchange, int status, const nlohmann::ordered_json& body) {
  exchange.respond(status, "application/json", json_text(body));
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const std::string_view digits = text[i] == '%' ? text.substr(i + 1, 2) : std::string_view();
    const char* const end = digits.data() + digits.size();
    const bool escaped = digits.size() == 2 && std::from_chars(digits.data(), end, byte, 16).ptr == end;
    out += escaped ? static_cast<char>(byte) : text[i];
    i += escaped ? 2 : 0;
  }
  return out;
}

void answer_error(Exchange& exchange, const ApiError& error, std::string_view extra) {
  exchange.respond(error.status, "application/json", error_json(error), extra);
}

void answer_problem(Exchange& exchange, int status, std::string_view what) {
  exchange.respond(status, "application/json", problem_json(status, what));
}

void answer_not_found(Exchange& exchange) {
  answer_error(exchange,
               {404, fmt::format("no such path: {}", exchange.path()), "invalid_request_error", "", "not_found"});
}

bool refused_as_too_deep(Exchange& exchange) {
  if (!nested_too_deep(exchange.body())) return false;
  answer_error(exchange, too_deep());
  return true;
}

std::string_view method_of(const Exchange& exchange) { return exchange.method() == "HEAD" ? "GET" : exchange.method(); }

bool only(Exchange& exchange, std::initializer_list<std::string_view> methods) {
  if (std::ranges::find(methods, method_of(exchange)) != methods.end()) return true;
  std::string allowed;
  for (const std::string_view method : methods) {
    append(allowed, {allowed.empty() ? "" : ", ", method, method == "GET" ? ", HEAD" : ""});
  }
  answer_error(
      exchange,
      {405, fmt::format("use {} on {}", allowed, exchange.path()), "invalid_request_error", "", "method_not_allowed"},
      fmt::format("Allow: {}\r\n", allowed));
  return false;
}

}  // namespace wattle::net
