#include "testbed/mock_dialect.h"

#include <fmt/format.h>

namespace wattle::testbed {

using nlohmann::json;

namespace {

const char* type_of(Dialect dialect, int status) {
  if (dialect == Dialect::LlamaCpp) {
    return status == 404   ? "not_found_error"
           : status == 503 ? "unavailable_error"
           : status >= 500 ? "server_error"
                           : "invalid_request_error";
  }
  switch (status) {
    case 404:
      return "NotFoundError";
    case 503:
      return "ServiceUnavailableError";
    default:
      return status >= 500 ? "InternalServerError" : "BadRequestError";
  }
}

}  // namespace

std::string error_body(Dialect dialect, const MockError& error) {
  const json param = error.param.empty() ? json() : json(error.param);
  const char* type = type_of(dialect, error.status);
  switch (dialect) {
    case Dialect::LlamaCpp:
      return json{{"error", {{"code", error.status}, {"message", error.message}, {"type", type}}}}.dump();
    case Dialect::Sglang:
      return json{
          {"object", "error"}, {"message", error.message}, {"type", type}, {"param", param}, {"code", error.status}}
          .dump();
    case Dialect::Vllm:
      break;
  }
  return json{{"error", {{"message", error.message}, {"type", type}, {"param", param}, {"code", error.status}}}}.dump();
}

MockError no_route(Dialect dialect, bool path_known) {
  if (dialect == Dialect::LlamaCpp) return {404, "File Not Found", ""};
  return path_known ? MockError{405, "Method Not Allowed", ""} : MockError{404, "Not Found", ""};
}

std::string no_route_body(Dialect dialect, const MockError& error) {
  return dialect == Dialect::LlamaCpp ? error_body(dialect, error) : json{{"detail", error.message}}.dump();
}

Wording::Wording(Dialect dialect, bool chat, std::string_view id, std::string_view model, std::int64_t created)
    : dialect_(dialect), chat_(chat), id_(id), model_(model), created_(created) {
  head_ = fmt::format(R"(data: {{"id":{},"object":"{}","created":{},"model":{},"choices":[)", json(id_).dump(),
                      chat ? "chat.completion.chunk" : "text_completion", created, json(model_).dump());
}

std::string Wording::chunk(std::int32_t choice, std::string_view delta, std::string_view finish) const {
  const std::string_view more = dialect_ == Dialect::Vllm && finish != "null" ? R"(,"stop_reason":null)" : "";
  return fmt::format(R"({}{{"index":{},{},"logprobs":null,"finish_reason":{}{}}}]}}{})", head_, choice, delta, finish,
                     more, "\n\n");
}

std::string Wording::opening() const {
  if (!chat_) return "";
  const char* content = dialect_ == Dialect::LlamaCpp ? "null" : "\"\"";
  return chunk(0, fmt::format(R"("delta":{{"role":"assistant","content":{}}})", content), "null");
}

std::string Wording::token(std::string_view text, const char* last, std::int32_t choice) const {
  const std::string finish = last != nullptr && dialect_ == Dialect::Vllm ? fmt::format("\"{}\"", last) : "null";
  return chunk(choice, chat_ ? fmt::format(R"("delta":{{"content":"{}"}})", text) : fmt::format(R"("text":"{}")", text),
               finish);
}

std::string Wording::end_of(std::int32_t choice, const char* finish_reason) const {
  if (dialect_ == Dialect::Vllm) return "";
  return chunk(choice, chat_ ? R"("delta":{})" : R"("text":"")", fmt::format("\"{}\"", finish_reason));
}

std::string Wording::closing(const Usage* usage) const {
  const std::string counts = usage != nullptr ? head_ + "],\"usage\":" + usage->json().dump() + "}\n\n" : "";
  return counts + "data: [DONE]\n\n";
}

std::string Wording::broken(std::string_view message) const {
  const Dialect worded = dialect_ == Dialect::Sglang ? Dialect::Vllm : dialect_;  // in a stream under "error", too
  std::string event = "data: " + error_body(worded, {500, std::string(message), ""}) + "\n\n";
  if (dialect_ != Dialect::LlamaCpp) event += "data: [DONE]\n\n";
  return event;
}

json Wording::choice(std::int32_t index, std::string_view text, const char* finish_reason) const {
  json choice = {{"index", index}, {"logprobs", json()}, {"finish_reason", finish_reason}};
  if (dialect_ == Dialect::Vllm) choice["stop_reason"] = json();
  if (chat_) {
    choice["message"] = {{"role", "assistant"}, {"content", text}};
    if (dialect_ == Dialect::Vllm) choice["message"]["reasoning"] = json();
  } else {
    choice["text"] = text;
  }
  return choice;
}

json Wording::whole(const json& choices, const Usage& usage) const {
  return {{"id", id_},           {"object", chat_ ? "chat.completion" : "text_completion"},
          {"created", created_}, {"model", model_},
          {"choices", choices},  {"usage", usage.json()}};
}

}  // namespace wattle::testbed
