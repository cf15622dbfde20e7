// Request bodies: an accepted one is a JSON object for another parser, too, with the same values.
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "net/http_parser.h"
#include "net/openai.h"

namespace wattle::fuzz {

namespace {

using Json = nlohmann::json;

/// The same value as `body` has under `key`.
bool stands_at(const net::CompletionRequest::Place& place, const std::string& body, const Json& json, const char* key) {
  if (place.size == 0) return true;
  if (place.at > body.size() || place.size > body.size() - place.at) return false;
  return Json::parse(body.substr(place.at, place.size), nullptr, false) == json.value(key, Json());
}

std::string broken_rule(const net::CompletionRequest& read, const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return "what is no JSON object was accepted";
  if (read.path != net::ApiPath::Other && json["model"] != read.model) return "another model was read";
  if (read.n < 1 || read.prompts < 1 || read.max_tokens < 0) return "a count below the least was read";
  if (read.prompt.ids < 0 || read.prompt.bytes < 0 || read.prompt.media < 0) return "a negative prompt was read";
  if (read.prompt.bytes > static_cast<std::int64_t>(body.size())) return "a prompt longer than the body was read";
  if (!stands_at(read.stream_options, body, json, "stream_options")) return "stream_options do not stand there";
  if (read.stream != (json.value("stream", Json()) == Json(true))) return "stream was read as something else";
  return "";
}

/// The results on every path.
Verdict read_as(net::ApiPath path, const std::string& body) {
  const auto read = net::read_completion(path, body);
  if (read) return {true, broken_rule(*read, body)};
  const net::ApiError& error = read.error();
  if (error.status < 400 || error.status > 499 || error.message.empty()) return {false, "a refusal without its reason"};
  if (!Json::accept(net::error_json(error))) return {false, "a refusal that is no JSON"};
  return {false, ""};
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      R"({"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}})",
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a\u00e9\ud83d\ude00"},{"type":"image_url",)"
      R"("image_url":{"url":"data:image/png;base64,AAAA"}}]}],"max_completion_tokens":7,"n":2,"prompt_cache_key":"k"})",
      R"({"model":"m","messages":[],"prompt":[1,2,3],"max_tokens":16,"priority":1,"temperature":0.5,"stop":["\n"]})",
      R"({"model":"m","messages":[{"content":null}],"prompt":[[1],[2,3]],"stream":false,"kv_transfer_params":{"a":[1e3,-0]}})",
  };
}

Verdict parse(std::string_view input) {
  std::string body(input);
  body.reserve(body.size() + net::RequestParser::kBodyPadding);
  Verdict out;
  for (const auto path : {net::ApiPath::Chat, net::ApiPath::Completions, net::ApiPath::Other}) {
    const Verdict one = read_as(path, body);
    if (!one.broken_rule.empty()) return one;
    out.accepted = out.accepted || one.accepted;
  }
  return out;
}

}  // namespace wattle::fuzz
