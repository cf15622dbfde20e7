#include "gateway/otlp.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "journal/names.h"
#include "net/openai.h"

namespace wattle::gateway {

namespace {

using OtlpJson = nlohmann::ordered_json;
constexpr int kServer = 2;  ///< Span.SpanKind
constexpr int kError = 2;   ///< Status.StatusCode
constexpr std::size_t kTextMax = 1024;

class Attributes {
 public:
  void text(const char* key, std::string_view value) {
    if (!value.empty()) add(key, "stringValue", value.substr(0, kTextMax));
  }
  /// 64-bit integers are text in JSON (protobuf's JSON mapping).
  void number(const char* key, std::int64_t value) { add(key, "intValue", fmt::format("{}", value)); }
  void real(const char* key, double value) { add(key, "doubleValue", value); }
  void flag(const char* key, bool value) { add(key, "boolValue", value); }
  OtlpJson take() { return std::move(all_); }

 private:
  template <typename T>
  void add(const char* key, const char* type, const T& value) {
    OtlpJson attribute = OtlpJson::object();
    attribute["key"] = key;
    attribute["value"][type] = value;
    all_.push_back(std::move(attribute));
  }
  OtlpJson all_ = OtlpJson::array();
};

const char* operation_of(std::string_view path) {
  if (path == "/v1/completions") return "text_completion";
  return path.ends_with("embeddings") ? "embeddings" : "chat";
}

void add_engine(const RequestEnd& r, Attributes& to) {
  const std::size_t colon = r.engine.rfind(':');
  to.text("server.address", std::string_view(r.engine).substr(0, colon));
  std::int64_t port = 80;
  if (colon != std::string::npos) std::from_chars(&r.engine[colon + 1], r.engine.data() + r.engine.size(), port);
  if (!r.engine.empty()) to.number("server.port", port);
  if (r.instance != kNoInstance) to.number("wattle.instance", r.instance.value());
  if (r.prefill_instance != kNoInstance) to.number("wattle.prefill_instance", r.prefill_instance.value());
  to.text("wattle.decision", r.decision);
  to.text("wattle.decode_decision", r.decode_decision);
}

/// What a client did wrong is no error of the server's (semantic conventions, HTTP spans, "Status").
bool is_error(const RequestEnd& r) { return r.fate == Fate::Failed || r.status >= 500; }

OtlpJson attributes_of(const RequestEnd& r) {
  Attributes to;
  to.text("gen_ai.operation.name", operation_of(r.path));
  to.text("gen_ai.request.model", r.model);
  if (r.max_tokens > 0) to.number("gen_ai.request.max_tokens", r.max_tokens);
  to.number("gen_ai.usage.input_tokens", r.prompt_tokens);
  to.number("gen_ai.usage.output_tokens", r.output_tokens);
  if (r.cached_tokens >= 0) to.number("gen_ai.usage.cache_read.input_tokens", r.cached_tokens);
  if (r.reasoning_tokens >= 0) to.number("gen_ai.usage.reasoning.output_tokens", r.reasoning_tokens);
  to.text("http.request.method", "POST");
  to.text("url.path", r.path);
  if (r.status != 0) to.number("http.response.status_code", r.status);
  if (is_error(r)) to.text("error.type", r.status >= 400 ? fmt::format("{}", r.status) : "_OTHER");
  add_engine(r, to);
  to.text("wattle.request_id", r.name);
  to.text("wattle.tenant", r.tenant);
  to.flag("wattle.stream", r.stream);
  to.number("wattle.attempts", r.attempts);
  to.text("wattle.fate", journal::name_of(r.fate));
  to.text("wattle.reason", r.reason);
  if (r.started != Instant::never()) to.real("wattle.queue_ms", (r.started - r.arrival).millis());
  if (r.first_token != Instant::never()) to.real("wattle.ttft_ms", (r.first_token - r.arrival).millis());
  if (r.energy_j) to.real("wattle.energy_j", *r.energy_j);
  if (r.carbon_g) to.real("wattle.carbon_g", *r.carbon_g);
  to.text("wattle.energy_meters", r.meters);
  return to.take();
}

OtlpJson span_of(const RequestEnd& r, std::int64_t unix_ns_at_zero) {
  const auto unix_ns = [&](Instant at) { return fmt::format("{}", unix_ns_at_zero + at.ns()); };
  OtlpJson span = OtlpJson::object();
  span["traceId"] = hex(r.own.trace);
  span["spanId"] = hex(r.own.span);
  if (r.caller) span["parentSpanId"] = hex(r.caller->span);
  if (r.caller && !r.tracestate.empty()) span["traceState"] = r.tracestate.substr(0, kTextMax);
  span["name"] = fmt::format("{} {}", operation_of(r.path), r.model.substr(0, kTextMax));
  span["kind"] = kServer;
  span["startTimeUnixNano"] = unix_ns(r.arrival);
  span["endTimeUnixNano"] = unix_ns(std::max(r.left, r.arrival));
  span["attributes"] = attributes_of(r);
  if (is_error(r)) {
    span["status"]["code"] = kError;
    span["status"]["message"] = r.reason;
  }
  return span;
}

}  // namespace

std::string otlp_json(std::span<const std::shared_ptr<const RequestEnd>> requests, std::int64_t unix_ns_at_zero,
                      std::string_view host) {
  Attributes resource;
  resource.text("service.name", "wattle-gateway");
  resource.text("host.name", host);
  auto spans = OtlpJson::array();
  for (const auto& request : requests) spans.push_back(span_of(*request, unix_ns_at_zero));
  OtlpJson scope = OtlpJson::object();
  scope["scope"]["name"] = "wattle";
  scope["spans"] = std::move(spans);
  OtlpJson of_resource = OtlpJson::object();
  of_resource["resource"]["attributes"] = resource.take();
  of_resource["scopeSpans"] = OtlpJson::array();
  of_resource["scopeSpans"].push_back(std::move(scope));
  OtlpJson body = OtlpJson::object();
  body["resourceSpans"] = OtlpJson::array();
  body["resourceSpans"].push_back(std::move(of_resource));
  return net::json_text(body);
}

std::int64_t rejected_spans(std::string_view response) {
  const auto json = nlohmann::json::parse(response, nullptr, false);
  const auto partial = json.is_object() ? json.find("partialSuccess") : json.end();
  if (partial == json.end() || !partial->is_object()) return 0;
  const auto count = partial->find("rejectedSpans");
  if (count == partial->end()) return 0;
  std::int64_t rejected = 0;
  if (count->is_number_integer()) {
    rejected = count->get<std::int64_t>();
  } else if (count->is_string()) {
    const auto& text = count->get_ref<const std::string&>();
    std::from_chars(text.data(), text.data() + text.size(), rejected);
  }
  return std::max<std::int64_t>(rejected, 0);
}

}  // namespace wattle::gateway
