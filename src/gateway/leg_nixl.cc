#include "gateway/leg_nixl.h"

#include <simdjson.h>

#include <nlohmann/json.hpp>

namespace wattle::gateway::nixl {

namespace {

namespace od = simdjson::ondemand;

void member(std::string& out, std::string_view key, std::string_view raw) {
  out += out.empty() ? '{' : ',';
  out += nlohmann::json(key).dump();
  out += ':';
  out += raw;
}

constexpr std::string_view kAskForParams =
    R"({"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,)"
    R"("remote_host":null,"remote_port":null})";

}  // namespace

std::optional<std::string> prefill_body(const std::string& body) {
  thread_local od::parser parser;
  od::document document;
  od::object object;
  if (body.capacity() < body.size() + simdjson::SIMDJSON_PADDING) return std::nullopt;
  if (parser.iterate(body.data(), body.size(), body.capacity()).get(document)) return std::nullopt;
  if (document.get_object().get(object)) return std::nullopt;
  std::string out;
  out.reserve(body.size() + kAskForParams.size() + 64);
  bool had_completion_cap = false;
  for (auto item : object) {
    od::field field;
    std::string_view key;
    std::string_view raw;
    if (std::move(item).get(field) || field.unescaped_key().get(key)) return std::nullopt;
    if (simdjson::to_json_string(field.value()).get(raw)) return std::nullopt;
    if (key == "max_completion_tokens") had_completion_cap = true;
    if (key == "stream" || key == "stream_options" || key == "max_tokens" || key == "max_completion_tokens" ||
        key == "min_tokens" || key == "kv_transfer_params") {
      continue;
    }
    member(out, key, raw);
  }
  member(out, "stream", "false");
  member(out, "max_tokens", "1");
  if (had_completion_cap) member(out, "max_completion_tokens", "1");  // it wins over max_tokens
  member(out, "kv_transfer_params", kAskForParams);
  out += '}';
  return out;
}

std::string transfer_params(std::string answer) {
  thread_local od::parser parser;
  answer.reserve(answer.size() + simdjson::SIMDJSON_PADDING);
  od::document document;
  od::object params;
  std::string_view raw;
  if (parser.iterate(answer.data(), answer.size(), answer.capacity()).get(document)) return {};
  if (document.find_field_unordered("kv_transfer_params").get_object().get(params)) return {};
  if (simdjson::to_json_string(params).get(raw)) return {};
  return std::string(raw);
}

std::string decode_body(std::string_view body, std::string_view params) {
  if (params.empty()) return std::string(body);
  const std::size_t end = body.rfind('}');
  std::string out;
  out.reserve(body.size() + params.size() + 24);
  out.append(body.substr(0, end));
  out.append(",\"kv_transfer_params\":");
  out.append(params);
  out.push_back('}');
  return out;
}

}  // namespace wattle::gateway::nixl
